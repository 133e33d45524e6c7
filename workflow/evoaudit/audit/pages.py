"""What a page is, going by its address and accessible text: a challenge wall, an error page, or neither.

A page that *talks about* captchas or errors is not one. So a phrase counts only as an element of its own, on a page
with little else.
"""

import re
from urllib.parse import urlsplit

from evoaudit.audit.episodes import visible

#: Elements, and words in all of them together, that an interstitial may have at most.
INTERSTITIAL_ELEMENTS, INTERSTITIAL_WORDS = 40, 160
#: Characters of page text looked at.
LIMIT = 50_000

_CHALLENGE_HOSTS = re.compile(r"(^|\.)(hcaptcha\.com|captcha-delivery\.com|arkoselabs\.com|challenges\.cloudflare\.com|recaptcha\.net)$")
_CHALLENGE_SEGMENT = re.compile(
    r"challenge|captcha|validatecaptcha|px-captcha|are-you-human|human-verification|bot-?check|robot-?check|antibot|blocked"
)
_CHALLENGE_HEADLINE = re.compile(
    r"(please )?(verify|verifying|confirm|prove) (that )?(you are|you're) (a |not a )?(human|robot|bot)"
    r"( by completing the action below)?"
    r"|checking (if the site connection is secure|your browser( before accessing.*)?)"
    r"|just a moment|attention required|are you (a )?(human|robot)"
    r"|(one more step|security check|human verification|access denied|pardon our interruption|robot check)"
    r"|(please )?complete the (security check|captcha)( to (access|continue).*)?"
    r"|enter the characters you see( below)?|press (and|&) hold( to confirm.*)?"
)
_CHALLENGE_CUE = re.compile(
    r"i('m| am) not a robot|unusual traffic from your|press (and|&) hold|ray id"
    r"|performing security verification|needs to review the security"
    r"|complete the (check|captcha|challenge|security check)"
    r"|enable javascript and cookies|select all (images|squares)|verification failed"
)

_ERROR_HEADLINE = re.compile(
    r"(http )?error:? 5\d\d"
    r"|(error )?5\d\d(:| -)? (bad gateway|service (temporarily )?unavailable|gateway time-?out|internal server error|server error)"
    r"|bad gateway|service (temporarily )?unavailable|gateway time-?out|internal server error"
    r"|(this site|this page) can('|’)?t be reached|this page isn('|’)t working|unable to connect|server not found|err_[a-z_]+"
    r"|(your )?session (has )?(ended|expired|timed out|been terminated)|(401 )?unauthorized"
    r"|application error.*|we('|’)re sorry, but something went wrong|connection (refused|reset|timed out)"
)
_ERROR_STEP = re.compile(
    r"net::err_|err_(connection|name|timed|internet|address)|unauthori[sz]ed url|chrome-error://|econnre(fused|set)"
    r"|(page|context|browser|session|tab)( or browser)?( has been| was| is)? (closed|crashed)"
    r"|session (has )?(ended|expired|timed out|terminated)|connection (refused|reset|aborted)"
    r"|\b50[0234]\b.{0,30}(gateway|unavailable|server error|time-?out)"
    r"|environment (error|crashed|failure)|vm (is )?(not responding|unreachable)"
)
_CHROME_ERROR = re.compile(r"chrome-error:|about:neterror")


def challenge(url: str | None, text: str | None) -> bool:
    """Say whether a page is a challenge wall.

    An address that only such walls have suffices; an address that might be one needs the page's text, where there is
    any; without a telling address the text needs a headline and either a second cue or nearly nothing else.
    """
    strong, weak = _address(url)
    if strong:
        return True
    strings = _interstitial(text)
    if strings is None:
        return weak and not (text or "").strip()
    headline = any(_CHALLENGE_HEADLINE.fullmatch(string) for string in strings)
    cue = any(_CHALLENGE_CUE.search(string) for string in strings)
    return (weak and (headline or cue)) or (headline and (cue or len(strings) <= 3))


def _address(url: str | None) -> tuple[bool, bool]:
    """Return (surely, maybe) for a challenge wall's address."""
    try:
        parts = urlsplit((url or "").casefold())
        host = parts.hostname or ""
    except ValueError:
        return False, False
    segments = [segment for segment in parts.path.split("/") if segment]
    strong = bool(_CHALLENGE_HOSTS.search(host)) or "__cf_chl" in parts.query or segments[:2] == ["cdn-cgi", "challenge-platform"]
    strong = strong or (bool(re.search(r"(^|\.)google\.[a-z.]+$", host)) and segments[:1] == ["sorry"])
    return strong, any(_CHALLENGE_SEGMENT.fullmatch(segment) for segment in segments[:2])


def error_page(url: str | None, text: str | None) -> bool:
    """Say whether a page is the environment's error page rather than the site's content."""
    if url and _CHROME_ERROR.match(url.casefold()):
        return True
    strings = _interstitial(text)
    return strings is not None and any(_ERROR_HEADLINE.fullmatch(string) for string in strings)


def error_report(error: str | None) -> bool:
    """Say whether an action's error is a fault of the environment, not of the action."""
    return bool(error and _ERROR_STEP.search(error[:LIMIT].casefold()))


def _interstitial(text: str | None) -> list[str] | None:
    """Return the elements of a page with little on it, None for any other page."""
    strings = [
        cleaned for string in visible((text or "")[:LIMIT]) if (cleaned := re.sub(r"[\s.…!?:]+$", "", " ".join(string.casefold().split())))
    ]
    if not strings or len(strings) > INTERSTITIAL_ELEMENTS or sum(len(string.split()) for string in strings) > INTERSTITIAL_WORDS:
        return None
    return strings

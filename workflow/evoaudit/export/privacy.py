"""Credentials and personal identifiers in texts: found by the fields they were typed into and by their form, masked, and looked for again.

A value typed into a field for a password, a card, an e-mail address, a person's name … is known from then on, and is masked wherever it
stands in its trajectory. Beside that, patterns with a checksum or an unmistakable form find what nobody typed.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import Any, NamedTuple

from evoaudit.resources import FICTIONAL

#: Shortest typed text that is looked for elsewhere: shorter ones stand in every text by chance.
SHORTEST = 3


class Span(NamedTuple):
    """A place in a text, and the rule that found it."""

    start: int
    end: int
    rule: str


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def luhn(text: str) -> bool:
    """Tell whether the digits of a text are a payment card's number by length and check digit."""
    digits = [int(one) for one in _digits(text)]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) == 1:
        return False
    doubled = [digit if place % 2 == 0 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


#: Country → length of its account numbers.
_IBAN = {
    name: int(length)
    for name, length in (
        pair.split(":")
        for pair in [
            "AD:24",
            "AE:23",
            "AT:20",
            "BE:16",
            "BG:22",
            "BR:29",
            "CH:21",
            "CY:28",
            "CZ:24",
            "DE:22",
            "DK:18",
            "EE:20",
            "ES:24",
            "FI:18",
            "FR:27",
            "GB:22",
            "GR:27",
            "HR:21",
            "HU:28",
            "IE:22",
            "IL:23",
            "IS:26",
            "IT:27",
            "LI:21",
            "LT:20",
            "LU:20",
            "LV:21",
            "MC:27",
            "MT:31",
            "NL:18",
            "NO:15",
            "PL:28",
            "PT:25",
            "RO:24",
            "RS:22",
            "SA:24",
            "SE:24",
            "SI:19",
            "SK:24",
            "SM:27",
            "TR:26",
            "UA:29",
        ]
    )
}


def iban(text: str) -> bool:
    """Tell whether a text is an account number by country, length and check digits."""
    bare = re.sub(r"[\s-]", "", text).upper()
    if len(bare) != _IBAN.get(bare[:2]):
        return False
    return int("".join(str(int(one, 36)) for one in bare[4:] + bare[:4])) % 97 == 1


def _real_address(text: str) -> bool:
    """Tell whether an e-mail address can be anybody's: some domains are kept for examples (RFC 2606)."""
    domain = text.rpartition("@")[2].casefold()
    return not re.search(r"(^|\.)(example(\.(com|org|net|edu))?|test|invalid|localhost)$", domain)


def _phone(text: str) -> bool:
    digits = _digits(text)
    made_up = re.search(r"55501\d\d$", digits)  # numbers kept for fiction
    return 8 <= len(digits) <= 15 and len(set(digits)) > 2 and not made_up


def _public(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False


def _any(text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """One form; the first group, where there is one, is what is masked. ``holds`` decides what the form alone cannot."""

    name: str
    pattern: re.Pattern
    holds: Callable[[str], bool] = _any
    #: Something of this form that `holds` accepts, to prove that the rule works before anything leaves.
    example: str = ""


_TOKEN = (
    r"sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{16,}|(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{30,}|ya29\.[\w-]{20,}"
    r"|xox[abeoprs]-[\w-]{10,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_WORDS = "password|passwort|passwd|passphrase|passcode|pwd|secret key|api[ _-]?key|access token|auth token"
#: One to four words that may be a person's, and what stands in such a place and is nobody.
_NAME = r"[^\W\d_a-z][\w'’.-]{1,30}(?:[ \t]{1,3}[^\W\d_a-z][\w'’.-]{0,30}){0,3}"
#: A name ends its phrase: "Hello, Please help me" greets nobody.
_END = r"(?=\s*(?:[^\w\s]|$|\n))"
_NOBODY = (
    "sign|log|guest|customer|user|there|world|all|every|everyone|everybody|team|sir|madam|back|again|select|choose|my|your|and|friend|visitor"
    "|member|admin|host|please|thanks?|kitty|colleagues?|hiring|to|none|unknown|n/?a|checking|savings|settings|details|number|id|type"
)
_QUOTE, _LATER = "['\"“`]?", r"(?!\[masked )"
RULES = (
    Rule("key", re.compile(rf"(?<![A-Za-z0-9])(?:{_TOKEN})"), example="ghp_" + "a1B2" * 9),
    Rule("password", re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,15}://[^\s/:@]{1,64}:([^\s/@]{1,64})@"), example="https://ann:s3cret@host.org"),
    Rule(
        "password",
        re.compile(rf"(?i)\b(?:{_WORDS})\s{{0,3}}[:=]\s{{0,3}}{_QUOTE}({_LATER}[^\s'\"”`]{{4,64}})"),
        example="password: correcthorse",
    ),
    # Without a colon the next word may be any: only one with a letter and a figure or a sign is taken for a password.
    Rule(
        "password",
        re.compile(
            rf"(?i)\b(?:{_WORDS})(?:\s{{1,3}}is)?\s{{1,3}}{_QUOTE}"
            rf"({_LATER}(?=[^\s'\"”`]{{0,63}}[\d!@#$%^&*_])(?=[^\s'\"”`]{{0,63}}[a-z])[^\s'\"”`]{{4,64}})"
        ),
        example="password is hunter2!",
    ),
    Rule("password", re.compile(r"(?i)\bbearer\s+((?!\[masked )[\w.~+/=-]{16,})"), example="Bearer " + "abcd1234" * 3),
    Rule("e-mail", re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"), _real_address, "ann.lee@mail.org"),
    Rule(
        "account", re.compile(r"(?i)\b[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?\b"), iban, "GB82 WEST 1234 5698 7654 32"
    ),
    Rule("card", re.compile(r"(?<![\d.])\d(?:[ -]?\d){12,18}(?![\d])"), luhn, "4111 1111 1111 1111"),
    Rule("ssn", re.compile(r"(?<![\d-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])"), example="219-09-9999"),
    Rule("phone", re.compile(r"(?<![\w+])\+\d{1,3}(?:[ .()/-]{0,2}\d){7,13}(?!\d)"), _phone, "+49 30 901820 42"),
    Rule("phone", re.compile(r"(?<![\w-])(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}(?![\w-])"), _phone, "(212) 736-5000"),
    # Where pages greet who is logged in, or say whose a thing is; a name begins with no small Latin letter.
    Rule("name", re.compile(rf"\b(?i:(?:signed|logged)[ -]?in as)\b[:,]?\s{{0,3}}({_NAME})"), example="Signed in as Ada Quill"),
    Rule(
        "name",
        re.compile(rf"\b(?:H(?:ello|i|ey)|Dear|Welcome(?:,?\s[Bb]ack)?)(?:\s?[,!]\s{{0,3}}|\s{{1,3}})(?!(?i:{_NOBODY})\b)({_NAME}){_END}"),
        example="Hello, Ada Quill",
    ),
    Rule(
        "name",
        re.compile(
            r"\b(?i:account (?:holder|of|menu for|owner)|(?:google|user|your)?\s?account|profile of|card ?holder|passenger|travell?er"
            rf"|recipient|(?:bill(?:ed)?|ship(?:ped)?|deliver(?:ed)?) to|attn)\s?:\s{{0,3}}(?!(?i:{_NOBODY})\b)({_NAME}){_END}"
        ),
        example="Bill to: Ada Quill",
    ),
    Rule("address", re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])"), _public, "8.8.8.8"),
)

#: Role or name of a field → what is typed there; the first that fits.
_FIELDS = (
    (
        "password",
        r"pass ?-?_?(?:word|code|phrase)|\bpwd\b|\bpin\b(?: ?code)?|\bcv[vc]2?\b|security code|\botp\b|one.time|verification code",
    ),
    ("password", r"\bsecret\b|api.?key|access.?token|recovery code|\btoken\b"),
    ("card", r"card.?(?:number|holder)|credit.?card|debit.?card|\bcc.?num"),
    ("account", r"\biban\b|account.?(?:number|no\b)|routing.?number|sort.?code"),
    ("e-mail", r"\be ?mail\b"),
    ("phone", r"\b(?:tele)?phone\b|\bmobile\b|cell.?(?:phone|number)|\btel\b"),
    ("name", r"\b(?:first|last|full|middle|given|family|legal|maiden|passenger|guest|traveller|traveler|contact|your).?name\b|\bsurname\b"),
    ("name", r"^(?:(?:text ?box|text|edit ?text|input|combo ?box|search ?box|field|type) )*name(?: required| optional)?$"),
    (
        "name",
        r"\b(?:billing|shipping|delivery|recipient|sender|account ?holder|card ?holder|attendee|patient|student|customer|person|driver"
        r"|beneficiary|payee|signature).?(?:s )?(?:full )?name\b|\bname (?:on|as (?:it|on)) "
        r"|\b(?:vorname|nachname|prénom|nombre|apellidos?)\b",
    ),
    ("name", r"\buser.?name\b|\blog.?in\b(?: ?(?:id|name))?$|\buser.?id\b"),
    ("ssn", r"\bssn\b|social.?security|passport|driver.?s?.?licen[cs]e|tax.?(?:id|number)|national.?id"),
    ("birth", r"birth.?(?:day|date)|date of birth|\bdob\b"),
    ("street", r"street|address.?line|(?:home|postal|mailing|billing|shipping|delivery).?address"),
)
FIELDS = tuple((rule, re.compile(pattern, re.IGNORECASE)) for rule, pattern in _FIELDS)


def field_rule(element: str | None) -> str | None:
    """Return what the field an action went to is for, if that is nobody else's business."""
    if not element:
        return None
    # `firstName` and `first_name` are words too.
    words = re.sub(r"[_\W]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", element[:400])).strip()
    return next((rule for rule, pattern in FIELDS if pattern.search(words)), None)


@dataclass
class Allowed:
    """Identities that may leave: the user's own list, and the published ones of self-hosted benchmarks."""

    patterns: tuple[str, ...] = ()
    #: Benchmark → its made-up identities.
    published: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._user = re.compile("|".join(translate(one.casefold()) for one in self.patterns)) if self.patterns else None

    def __call__(self, text: str, benchmark: str | None = None) -> bool:
        bare = text.strip().casefold()
        return bool(self._user and self._user.fullmatch(bare)) or bare in self.published.get((benchmark or "").casefold(), ())


def published() -> dict[str, frozenset[str]]:
    """Return the made-up identities of self-hosted benchmarks by benchmark, as their own code publishes them."""
    import yaml

    found = yaml.safe_load(FICTIONAL.read_text(encoding="utf-8"))
    return {name.casefold(): frozenset(str(one).casefold() for one in entry["identities"]) for name, entry in found.items()}


def self_test() -> None:
    """Raise `RuntimeError` unless every rule finds its own example: a rule that finds nothing would let everything leave."""
    for rule in RULES:
        if not any(span.rule == rule.name for span in find(rule.example)):
            raise RuntimeError(f"the rule '{rule.name}' does not find its example")


def find(text: str, known: Mapping[str, str] | None = None, allow: Callable[[str], bool] | None = None) -> list[Span]:
    """Return what may not leave in a text, from left to right, overlaps joined; ``known`` maps typed texts to their rule."""
    spans: list[Span] = []
    for rule in RULES:
        for match in rule.pattern.finditer(text):
            group = 1 if rule.pattern.groups else 0
            if rule.holds(match[group]) and not (allow and allow(match[group])):
                spans.append(Span(*match.span(group), rule.name))
    for value, name in (known or {}).items():
        for match in _whole(value).finditer(text):
            if not (allow and allow(match[0])):
                spans.append(Span(*match.span(), name))
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start < joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


@lru_cache(maxsize=8192)
def _whole(value: str) -> re.Pattern:
    """Match a typed text where it stands as a word of its own, case and kinds of white space aside."""
    words = r"\s+".join(re.escape(word) for word in value.split())
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def mask(text: str, spans: Iterable[Span]) -> str:
    """Return the text with every span replaced by the name of its rule."""
    parts, at = [], 0
    for span in spans:
        parts += [text[at : span.start], f"[masked {span.rule}]"]
        at = span.end
    return "".join([*parts, text[at:]])


class Texts:
    """Masks the texts of an export, counts what was found, and keeps none of it."""

    def __init__(self, allow: Allowed, open_sources: Collection[str] = ()) -> None:
        self_test()
        self._allow, self._open = allow, frozenset(open_sources)
        #: Trajectory → source, benchmark, and whether its identities are made up.
        self._of: dict[str, tuple[str, str | None, bool]] = {}
        #: Trajectory → what was typed into fields of its own → rule.
        self._known: dict[str, dict[str, str]] = {}
        #: (trajectory, step) → rule of the field its value went to.
        self._typed: dict[tuple[str, int], str] = {}
        self.found: list[dict[str, Any]] = []
        self.spared: Counter[str] = Counter()

    def learn(self, trajectory: Mapping[str, Any], steps: Iterable[Mapping[str, Any]]) -> None:
        """Take in a trajectory: what was typed into which of its fields, and whom its elements name."""
        name = trajectory["trajectory_id"]
        fictional = bool(trajectory["simulated"]) or trajectory["source"] in self._open
        self._of[name] = trajectory["source"], trajectory["benchmark"], fictional
        for step in steps:
            value, element = (step["value"] or "").strip(), (step["target"] or {}).get("text")
            if not fictional and element:
                self._greeted(trajectory, element)
            if step["op"] not in ("type", "paste", "select") or not value:
                continue
            if (rule := field_rule(element)) is None:
                continue
            if fictional or self._allow(value, trajectory["benchmark"]):
                self.spared["made up" if fictional else "allowed"] += 1
                continue
            self._typed[name, step["step"]] = rule
            if len(value) >= SHORTEST:
                self._known.setdefault(name, {})[value] = rule
            if rule == "e-mail":
                self._addressed(trajectory, value)

    def _greeted(self, trajectory: Mapping[str, Any], element: str) -> None:
        """Take in the names that an element's label shows where a page says who is logged in."""
        for span in find(element[:400]):
            found = element[span.start : span.end]
            if span.rule == "name" and len(found) >= SHORTEST and not self._allow(found, trajectory["benchmark"]):
                self._known.setdefault(trajectory["trajectory_id"], {}).setdefault(found, "name")

    def _addressed(self, trajectory: Mapping[str, Any], address: str) -> None:
        """Take in the name before an e-mail address's @ where it is of two words: as it stands, and as a page would write it."""
        words = re.split(r"[._+-]", address.partition("@")[0])
        if "@" not in address or len(words) < 2 or not all(word.isalpha() and len(word) > 1 for word in words[:2]):
            return
        for one in (address.partition("@")[0], " ".join(words)):
            if not self._allow(one, trajectory["benchmark"]):
                self._known.setdefault(trajectory["trajectory_id"], {}).setdefault(one, "name")

    def fictional(self, trajectory_id: str) -> bool:
        """Tell whether a trajectory's identities are all made up."""
        return self._of.get(trajectory_id, ("", None, False))[2]

    def source(self, trajectory_id: str) -> str:
        """Return the source of a trajectory."""
        return self._of.get(trajectory_id, ("", None, False))[0]

    def known(self, trajectory_id: str) -> dict[str, str]:
        """Return what was typed into fields nobody else should see → rule."""
        return self._known.get(trajectory_id, {})

    def allow(self, trajectory_id: str) -> Callable[[str], bool]:
        """Return the test of what may leave of a trajectory."""
        _, benchmark, _ = self._of.get(trajectory_id, ("", None, False))
        return lambda text: self._allow(text, benchmark)

    def spans(self, trajectory_id: str, text: str | None) -> list[Span]:
        """Return what may not leave in one text of a trajectory."""
        if not text or self.fictional(trajectory_id):
            return []
        return find(text, self.known(trajectory_id), self.allow(trajectory_id))

    def masked(self, trajectory_id: str, item: str, name: str, text: str | None) -> str | None:
        """Return one text of an item as it may leave."""
        spans = self.spans(trajectory_id, text)
        if not spans:
            return text
        for rule, n in sorted(Counter(span.rule for span in spans).items()):
            self.found.append({"item": item, "field": name, "rule": rule, "n": n})
        clean = mask(text or "", spans)
        if left := self.spans(trajectory_id, clean):
            raise RuntimeError(f"{item}: {name}: a text still shows a {left[0].rule} after masking")
        return clean

    def typed(self, trajectory_id: str, step: int, value: str | None) -> str | None:
        """Return why the value of a step may not leave, or None."""
        if rule := self._typed.get((trajectory_id, step)):
            return rule
        spans = self.spans(trajectory_id, value)
        return spans[0].rule if spans else None

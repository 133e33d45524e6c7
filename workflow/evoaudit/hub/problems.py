"""What went wrong with the hub, in one line that says what to do. No line ever holds a token.

Errors are told apart by the names of their classes, since the client's own HTTP library changed its name between versions.
"""

import os
import re
from collections.abc import Iterator

from evoaudit.errors import InputError, one_line

_KEPT = "finished files are kept"
_PROXY = "check HF_ENDPOINT, HTTPS_PROXY and the firewall (the hub sends large files from hosts of their own)"
_SECRETS = re.compile(r"hf_[A-Za-z0-9_]{6,}|(?<=Bearer )\S+|(?<=://)[^/@\s]+(?=@)")
_NO_NAME = re.compile(r"getaddrinfo|name or service|name resolution|nodename|no address", re.IGNORECASE)


def redact(text: str) -> str:
    """Return a text without the user's token, anything that looks like one, and passwords in addresses."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        for secret in {os.environ.get(name, ""), os.environ.get(name, "").strip()}:
            if len(secret) > 3:
                text = text.replace(secret, "<token>")
    return _SECRETS.sub("<token>", text)


def explain(error: Exception, *, repo: str, revision: str, endpoint: str, token: bool, path: str | None, locked: bool) -> InputError:
    """Return an error of the client as what the user can mend.

    ``path`` is the file that was asked for, ``token`` whether one was sent, ``locked`` whether the revision came from the lock file.
    """
    where = f"{repo}@{revision}" + (f"/{path}" if path else "")
    what, mend = _judge(error, repo, revision, redact(endpoint), token, locked)
    return InputError(redact(where), redact(what), mend)


def _judge(error: Exception, repo: str, revision: str, endpoint: str, token: bool, locked: bool) -> tuple[str, str]:
    chain = list(_causes(error))
    names = {base.__name__ for one in chain for base in type(one).__mro__}
    said = one_line(redact(str(chain[-1])), 200)
    status = next((code for one in chain if isinstance(code := getattr(getattr(one, "response", None), "status_code", None), int)), None)
    page = f"{endpoint}/datasets/{repo}"
    if "GatedRepoError" in names:
        if not token:
            return "the data set is gated", f"accept its terms at {page}, then set HF_TOKEN to a token of that account"
        return (
            "the data set is gated and this token has no access",
            f"accept its terms at {page} with the token's account, or wait for consent",
        )
    if "DisabledRepoError" in names:
        return "the data set was disabled on the hub", "use a copy: give its folder as 'path'"
    if "RevisionNotFoundError" in names:
        if locked:
            return "this commit is locked but no longer on the hub", (
                "use a copy of it ('path'), or delete the data set's entry in the lock file to take what is there now"
            )
        return f"no revision '{one_line(revision, 80)}'", "give a branch, a tag or a commit of 40 hex digits that is there"
    if "HFValidationError" in names:
        return "not a data set's name", "write it as owner/name"
    if status == 401 and token and "RepositoryNotFoundError" not in names:
        return "the token is not accepted", "set HF_TOKEN to a valid token, or unset it"
    if "RepositoryNotFoundError" in names:
        return "no such data set, or a private one", "check the spelling" + (
            "; the token's account may not see it" if token else "; if it is private, set HF_TOKEN"
        )
    if "RemoteEntryNotFoundError" in names:
        return "the file is listed but not there", f"run again later, or pin another revision; {_KEPT}"
    if "OfflineModeIsEnabled" in names:
        return "offline mode is on (HF_HUB_OFFLINE)", "unset it and run again"
    if status == 429:
        return "the hub limits the rate of requests", f"wait some minutes, set HF_TOKEN or use fewer threads, then run again; {_KEPT}"
    if status is not None and status >= 500:
        return f"the hub has a fault of its own (HTTP {status})", f"run again later; {_KEPT}"
    if status is not None and status >= 400:
        return f"refused with HTTP {status} and not by the hub itself", _PROXY
    if "ProxyError" in names:
        return f"the proxy refuses ({said})", "check HTTPS_PROXY and NO_PROXY"
    if any("CERTIFICATE" in str(one).upper() for one in chain):
        return f"the certificate of {endpoint} is not trusted", "check HF_ENDPOINT and, behind a firewall, SSL_CERT_FILE"
    if "ConnectError" in names:
        if "gaierror" in names or any(_NO_NAME.search(str(one)) for one in chain):
            return f"the host of {endpoint} is not known", "check the network, its name server and HF_ENDPOINT"
        return f"nothing answers at {endpoint}", "check the network and HF_ENDPOINT; without one, give a folder as 'path'"
    if names & {"TimeoutException", "TimeoutError"}:
        return f"{endpoint} does not answer in time", f"check the network and run again; {_KEPT}"
    if names & {"RemoteProtocolError", "NetworkError", "ConnectionError"}:
        return "the connection is lost again and again", f"run again; {_KEPT}"
    if "Consistency check failed" in str(error):
        return "the file came with a wrong size, twice", f"run again later; {_KEPT}"
    if "UnicodeError" in names or "header value" in str(error):
        return "the token holds characters that no token has", "set HF_TOKEN to the token alone"
    if "FileMetadataError" in names:
        return "the answer is not a hub's: headers are missing", _PROXY
    if any(name == "RuntimeError" or name.startswith("Xet") for name in names):
        return f"the xet transfer failed ({said})", f"set HF_HUB_DISABLE_XET=1 and run again; {_KEPT}"
    return f"the answer is not what a hub sends ({type(error).__name__}: {said})", _PROXY


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those it came from."""
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        yield at
        at = at.__cause__ or at.__context__

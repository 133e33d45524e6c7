"""Every provider against a server that speaks its protocol, with the vendors' real SDKs as the measure of what is sent and read."""

import asyncio
import base64
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from model_server import FAULTS, GOOD, PROTOCOLS, Answer, ModelServer, Reply, expected, fault, good
from served import CANARY, served
from test_gate import Bucket
from test_infer import PICTURES, PROMPT_SET, by_instance, command, settings_for, t3, write_probes

from evoaudit import config, plan, prompts, store
from evoaudit.__main__ import main
from evoaudit.errors import InputError
from evoaudit.infer import base, limits, providers
from evoaudit.infer.base import Outcome, Request, closed
from evoaudit.infer.journal import NAME
from evoaudit.infer.predict import predict
from evoaudit.prompts import Image, Message, Text

REPO = Path(__file__).parents[1]
SCHEMA = closed(PROMPT_SET["t3"].answer)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], ModelServer]]:
    yield from served(monkeypatch, ModelServer)


def entry(protocol: str, server: ModelServer | None, **more: Any) -> dict[str, Any]:
    provider = "openai" if protocol in ("chat", "responses") else protocol
    address = server.url(protocol) if server else None
    api = {"api": "responses"} if protocol == "responses" else {}
    return {**settings_for(None), "provider": provider, "base_url": address, **api, **more}


def ask(protocol: str, server: ModelServer, request: Request, **more: Any) -> Outcome:
    async def once() -> Outcome:
        provider = providers.make(entry(protocol, server, **more), base.Attachments(PICTURES), 5.0)
        try:
            return await provider.ask(request)
        finally:
            await provider.close()

    return asyncio.run(once())


def data(image: Image) -> bytes:
    return base.Attachments(PICTURES).data(image)


def url(image: Image) -> str:
    return "data:image/png;base64," + base64.b64encode(data(image)).decode()


async def by_sdk(protocol: str, server: ModelServer, request: Request) -> Any:
    """Ask through the vendor's own SDK, as its documentation says, and return what it decodes."""
    (system, user), address = request.messages, server.url(protocol)
    schema = request.schema
    if protocol == "chat":
        content = [
            {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image_url", "image_url": {"url": url(part)}}
            for part in user.parts
        ]
        more = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}}
        async with openai.AsyncOpenAI(base_url=address, api_key=CANARY, max_retries=0) as client:
            return await client.chat.completions.create(
                model="org/model",
                messages=[{"role": "system", "content": system.parts[0].text}, {"role": "user", "content": content}],
                temperature=0,
                max_tokens=50,
                **(more if schema else {}),
            )
    if protocol == "responses":
        content = [
            {"type": "input_text", "text": part.text}
            if isinstance(part, Text)
            else {"type": "input_image", "image_url": url(part), "detail": "auto"}
            for part in user.parts
        ]
        more = {"text": {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}}}
        async with openai.AsyncOpenAI(base_url=address, api_key=CANARY, max_retries=0) as client:
            return await client.responses.create(
                model="org/model",
                input=[{"role": "system", "content": system.parts[0].text}, {"role": "user", "content": content}],
                temperature=0,
                max_output_tokens=50,
                store=False,
                **(more if schema else {}),
            )
    if protocol == "anthropic":
        content = [
            {"type": "text", "text": part.text}
            if isinstance(part, Text)
            else {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data(part)).decode()},
            }
            for part in user.parts
        ]
        more = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        async with anthropic.AsyncAnthropic(base_url=address, api_key=CANARY, max_retries=0, timeout=60) as client:
            return await client.messages.create(
                model="org/model",
                max_tokens=50,
                system=[{"type": "text", "text": system.parts[0].text}],
                messages=[{"role": "user", "content": content}],
                extra_body={"temperature": 0},
                **(more if schema else {}),
            )
    parts = [
        types.Part.from_text(text=part.text) if isinstance(part, Text) else types.Part.from_bytes(data=data(part), mime_type="image/png")
        for part in user.parts
    ]
    more = {"response_mime_type": "application/json", "response_json_schema": schema}
    client = genai.Client(api_key=CANARY, http_options=types.HttpOptions(base_url=address))
    try:
        return await client.aio.models.generate_content(
            model="gemini-x",
            contents=[types.Content(role="user", parts=parts)],
            config=types.GenerateContentConfig(
                system_instruction=system.parts[0].text, temperature=0, max_output_tokens=50, **(more if schema else {})
            ),
        )
    finally:
        await client.aio.aclose()
        client.close()


def sdk(protocol: str, server: ModelServer, request: Request) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return asyncio.run(by_sdk(protocol, server, request))


def request_of(system: str, parts: list[Text | Image], schema: dict | None) -> Request:
    return Request("t3", "i-1", 0, (Message("system", (Text(system),)), Message("user", tuple(parts))), schema)


IMAGES = [Image("p0"), Image("p1", black=True), Image("p2")]
WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(
    system=WORDS, words=st.lists(WORDS, min_size=1, max_size=3), shown=st.lists(st.sampled_from(IMAGES), max_size=4), schema=st.booleans()
)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_sent_is_what_the_sdk_sends(serve, protocol, system, words, shown, schema):
    server = serve(lambda call: good(call.protocol))
    # At least two parts: a lone text is a plain string to some, which means the same.
    parts = [part for pair in zip([*map(Text, words), Text("x"), Text("y")], shown, strict=False) for part in pair] or [
        Text("x"),
        IMAGES[0],
    ]
    request = request_of(system, parts, SCHEMA if schema else None)
    ask(protocol, server, request, model="gemini-x" if protocol == "google" else "org/model")
    sdk(protocol, server, request)
    ours, theirs = server.calls
    assert (ours.path, ours.body) == (theirs.path, theirs.body)
    for name in ("authorization", "x-goog-api-key", "x-api-key", "anthropic-version", "content-type"):
        assert ours.headers.get(name) == theirs.headers.get(name), name


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("text", "end"), [(GOOD, "stop"), ("ü\n{", "length"), (None, "length"), ("", "filter"), (None, "refusal")])
def test_what_is_read_is_what_the_sdk_reads(serve, protocol, text, end):
    server = serve(lambda call: good(call.protocol, text, end))
    request = request_of("s", [Text("x"), IMAGES[0]], None)
    outcome = ask(protocol, server, request)
    reply = sdk(protocol, server, request)
    if protocol == "chat":
        choice = reply.choices[0]
        details = reply.usage.prompt_tokens_details.cached_tokens, reply.usage.completion_tokens_details.reasoning_tokens
        theirs = choice.message.content, choice.finish_reason, reply.model, reply.usage.prompt_tokens, reply.usage.completion_tokens
    elif protocol == "responses":
        details = reply.usage.input_tokens_details.cached_tokens, reply.usage.output_tokens_details.reasoning_tokens
        finish = reply.incomplete_details.reason if reply.incomplete_details else reply.status
        theirs = reply.output_text or None, finish, reply.model, reply.usage.input_tokens, reply.usage.output_tokens
    elif protocol == "anthropic":
        usage = reply.usage
        details = usage.cache_read_input_tokens, usage.output_tokens_details.thinking_tokens
        given = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        words = "".join(block.text for block in reply.content) if reply.content else None
        theirs = words, reply.stop_reason, reply.model, given, usage.output_tokens
    else:
        usage = reply.usage_metadata
        details = usage.cached_content_token_count, usage.thoughts_token_count
        written = usage.candidates_token_count + usage.thoughts_token_count
        theirs = reply.text, reply.candidates[0].finish_reason.value, reply.model_version, usage.prompt_token_count, written
    ours = outcome.raw, outcome.finish_reason, outcome.served, outcome.input_tokens, outcome.output_tokens
    assert (ours[0] or None, *ours[1:]) == (theirs[0] or None, *theirs[1:])
    assert (outcome.cached_tokens, outcome.reasoning_tokens) == details == (400, 4)
    assert (outcome.input_tokens, outcome.output_tokens) == (1000, 10)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_fault_matrix_is_classed_without_one_error_and_no_fault_is_a_wrong_answer(serve, tmp_path, protocol):
    names = [f"i-{name}" for name in FAULTS]
    tables = {name: FAULTS[name.removeprefix("i-")][0] for name in names}
    server = serve(lambda call: tables[call.asked](protocol) if call.asked in tables else good(protocol))
    asked = entry(protocol, server, retries=1, timeout_s=1.0, concurrency=16)
    rows = predict(asked, t3("i-good", *names), PICTURES, PROMPT_SET, out=tmp_path)
    found = by_instance(rows, "status")
    assert found == {"i-good": "ok", **{f"i-{name}": expected(protocol, name) for name in FAULTS}}
    assert set(found.values()) <= base.STATUSES and len(FAULTS) >= 14
    # Only what another try, or a doubled bound, may mend was asked again.
    tries = [call.asked for call in server.calls]
    assert {name for name in names if tries.count(name) > 1} == {name for name in names if found[name] in base.PASSING | {"truncated"}}
    assert by_instance(rows, "raw")["i-length"] == '{"answer": "A"'
    from evoaudit.score import score

    scored = {row["instance_id"]: score("t3", probe, row) for row, probe in zip(rows, t3(*sorted(found))["t3"], strict=True)}
    assert {name for name, row in scored.items() if row["status"] != "unanswered"} == {"i-good"}
    assert CANARY.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("kind", "words"),
    [("auth", "refused"), ("forbidden", "refused"), ("credit", "no credit"), ("spent", "no credit"), ("model", "knows no model org/model")],
)
def test_a_fault_of_the_account_stops_every_provider_at_once(serve, tmp_path, protocol, kind, words):
    server = serve(lambda call: fault(call.protocol, kind))
    with pytest.raises(InputError) as error:
        predict(entry(protocol, server), t3(*(f"i-{n}" for n in range(20))), PICTURES, PROMPT_SET, out=tmp_path)
    assert words in str(error.value) and CANARY not in str(error.value) and len(server.calls) <= 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_passing_faults_are_mended_by_another_try(serve, tmp_path, protocol):
    mended = ("rate", "server", "busy", "conflict", "late", "reset", "cut", "malformed", "html", "html-502")
    seen: set[str] = set()

    def answer(call: Any) -> Reply:
        name = call.asked.removeprefix("i-")
        first = call.asked not in seen
        seen.add(call.asked)
        return FAULTS[name][0](protocol) if first and name in mended else good(protocol)

    server = serve(answer)
    rows = predict(entry(protocol, server), t3(*(f"i-{name}" for name in mended)), PICTURES, PROMPT_SET, out=tmp_path)
    assert set(by_instance(rows, "status").values()) == {"ok"} and len(server.calls) == 2 * len(mended)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_storm_of_rate_limits_loses_nothing_and_costs_little(serve, tmp_path, protocol):
    bucket = Bucket(20, 5, 1)
    server = serve(lambda call: good(protocol) if bucket.take() else fault(protocol, "rate", {"Retry-After": "1"}))
    names = [f"i-{n:03}" for n in range(300)]
    rows = predict(entry(protocol, server, concurrency=32, retries=6), t3(*names), PICTURES, PROMPT_SET, out=tmp_path)
    assert [row["status"] for row in rows] == ["ok"] * 300
    assert bucket.refused <= 15 and bucket.longer(300) <= 1.15, (bucket.refused, bucket.longer(300))


def test_google_says_in_the_body_how_long_to_wait(serve):
    body = fault("google", "rate").payload
    body["error"]["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37.5s"}]
    server = serve(lambda call: Reply(429, body))
    assert ask("google", server, request_of("s", [Text("x")], None)).retry_after == 37.5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_key_that_the_service_echoes_reaches_no_file(serve, tmp_path, protocol, capsys):
    answers = {
        "i-1": lambda: good(protocol, f"key {CANARY}", served=CANARY),
        "i-2": lambda: Reply(400, json.loads(json.dumps(fault(protocol, "bad").payload).replace("cannot read", f"bad {CANARY}"))),
    }
    server = serve(lambda call: answers.get(call.asked, lambda: good(protocol))())
    mined = write_probes(tmp_path / "mined", t3("i-0", "i-1", "i-2"))
    sent = entry(protocol, server, condition="metadata")
    assert main(command(sent, mined, tmp_path / "out")) == 0
    written = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert any(path.name == NAME for path in written)
    assert all(CANARY.encode() not in content for content in written.values()) and CANARY not in "".join(capsys.readouterr())
    assert by_instance(store.read_rows(tmp_path / "out", "predictions"), "raw")["i-1"] == "key [key]"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_model_than_the_one_asked_for_is_written_down(serve, tmp_path, protocol):
    server = serve(lambda call: good(call.protocol, served="something-else"))
    predict(entry(protocol, server), t3("i-1"), PICTURES, PROMPT_SET, out=tmp_path)
    assert json.loads((tmp_path / NAME).read_text().splitlines()[0])["served"] == "something-else"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_judge_can_ask_with_pictures_and_a_schema(serve, protocol):
    server = serve(lambda call: good(call.protocol, '{"verdict": "gf"}'))
    schema = closed({"type": "object", "properties": {"verdict": {"type": "string", "enum": ["gf", "efn"], "minLength": 2}}})
    messages = (Message("user", (Text("Which verdict?"), *(Image(f"p{n % 4}") for n in range(50)))),)
    outcome = ask(protocol, server, Request("judge", "t-1", 0, messages, schema))
    assert (outcome.status, outcome.raw) == ("ok", '{"verdict": "gf"}')
    sent = json.dumps(server.calls[0].body)
    encode = base64.urlsafe_b64encode if protocol == "google" else base64.b64encode
    assert sent.count(encode(PICTURES.get("p1")).decode()) == 13
    assert '"additionalProperties": false' in sent and '"enum": ["gf", "efn"]' in sent and "minLength" not in sent


def test_schema_answers_are_asked_for_only_where_the_config_says_so(serve, tmp_path):
    server = serve(lambda call: good(call.protocol))
    predict(entry("chat", server), t3("i-1"), PICTURES, PROMPT_SET, out=tmp_path / "free")
    predict(entry("chat", server, schema=True), t3("i-1"), PICTURES, PROMPT_SET, out=tmp_path / "held")
    free, held = (call.body for call in server.calls)
    assert "response_format" not in free
    schema = held["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == ["A", "B"] and schema["required"] == ["answer", "confidence"]


def test_protocol_and_schema_are_part_of_the_request_key():
    attachments = base.Attachments(PICTURES)
    messages = prompts.render(PROMPT_SET["t3"], t3("i-1")["t3"][0])

    def key(schema: dict | None = None, **more: Any) -> str:
        return base.request_key({**settings_for(None), **more}, Request("t3", "i-1", 0, messages, schema), attachments)

    assert len({key(), key(api="responses"), key(SCHEMA), key({**SCHEMA, "x": 1}), key(provider="google")}) == 5


def test_a_temperature_that_a_model_does_not_take_is_left_out(serve, tmp_path):
    def answer(call: Any) -> Reply:
        if "temperature" not in call.body:
            return good(call.protocol)
        if call.protocol == "anthropic":
            error = {"type": "invalid_request_error", "message": "temperature: Extra inputs are not permitted"}
            return Reply(400, {"type": "error", "error": error})
        return Reply(400, {"error": {"message": "no", "code": "unsupported_value", "type": "t", "param": "temperature"}})

    server = serve(answer)
    for protocol in ("responses", "anthropic"):
        rows = predict(entry(protocol, server, concurrency=1), t3("i-1", "i-2"), PICTURES, PROMPT_SET, out=tmp_path / protocol)
        assert set(by_instance(rows, "status").values()) == {"ok"}
    assert len(server.calls) == 6


def test_pictures_beyond_a_services_limits_are_not_sent(serve, tmp_path, monkeypatch):
    server = serve(lambda call: good(call.protocol))
    monkeypatch.setitem(limits.TABLE, "anthropic", (None, limits.Limits(pictures=2)))
    probes = t3("i-1", "i-2")
    probes["t2"] = [{**probes["t3"][0], "instance_id": "i-3", "images": ["p0", "p1"], "answer_action": "click", "options": ["click"]}]
    rows = predict(entry("anthropic", server), probes, PICTURES, PROMPT_SET, out=tmp_path)
    assert by_instance(rows, "status") == {"i-1": "picture_limit", "i-2": "picture_limit", "i-3": "ok"}
    assert by_instance(rows, "error")["i-1"] == "not sent: 3 pictures; the service takes 2" and len(server.calls) == 1


@pytest.mark.parametrize(
    ("pictures", "words"),
    [
        ([(512, 288, 30_000)] * 600, None),
        ([(512, 288, 30_000)] * 601, "601 pictures"),
        ([(8000, 10, 10)], None),
        ([(10, 8001, 10)], "8001 pixels"),
        ([(2001, 10, 10)] * 20, None),
        ([(2001, 10, 10)] * 21, "2000 where there are more than 20"),
        ([(10, 10, 3_932_160)], None),
        ([(10, 10, 3_932_161)], "as base64"),
        ([(10, 10, 2_000_000)] * 13, "pictures of"),
    ],
)
def test_the_limits_count_pictures_pixels_and_bytes_as_they_are_sent(pictures, words):
    found = limits.exceeded(limits.of({"provider": "anthropic"}), pictures)
    assert found is None if words is None else words in found


def test_an_endpoint_of_ones_own_has_no_known_limits():
    assert limits.of({"provider": "openai", "base_url": "http://127.0.0.1:30000/v1"}) == limits.UNKNOWN
    assert limits.of({"provider": "openai", "base_url": None}) == limits.of({"provider": "codex"}) == limits.OPENAI


def test_all_28_configurations_of_the_paper_run_from_one_config(serve, tmp_path, monkeypatch):
    server = serve(lambda call: good(call.protocol, served=call.body.get("model", "gemini")))
    (tmp_path / "corpus").mkdir()
    checked = config.check({"models": str(REPO / "config/models.yaml"), "sources": [{"name": "s", "kind": "plain", "path": "corpus"}]})
    entries = [one for one in checked.models if one.provider != "builtin"]
    assert len(entries) == 28 and {one.group for one in entries} == {"open", "closed"} and all(one.family for one in entries)
    made = plan.build(checked, tmp_path, must_exist=False).of("infer")
    jobs = [job for job in made if job.settings["provider"] != "builtin" and job.settings["condition"] == "full"]
    assert {job.settings["name"] for job in jobs} == {one.name for one in entries}
    spoken = set()
    for job in jobs:
        if job.transport["api_key_env"]:
            monkeypatch.setenv(job.transport["api_key_env"], CANARY)
        protocol = "chat" if job.settings["provider"] == "openai" else job.settings["provider"]
        sent = {**job.all_settings, "base_url": server.url(protocol)}
        rows = predict(sent, t3("i-1"), PICTURES, PROMPT_SET, out=tmp_path / job.key)
        assert [(row["status"], row["raw"]) for row in rows] == [("ok", GOOD)]
        spoken.add(server.calls[-1].protocol)
        body = server.calls[-1].body
        assert body.get("temperature", body.get("generationConfig", {}).get("temperature")) == 0
    assert spoken == {"chat", "google", "anthropic"} and len(server.calls) == len(jobs)


MODEL_RECORDS = {
    "openai": {"object": "list", "data": [{"id": "org/model", "object": "model", "created": 0, "owned_by": "x"}]},
    "anthropic": {"id": "org/model", "type": "model", "display_name": "M", "created_at": "2026-01-01T00:00:00Z"},
    "google": {"name": "models/gemini-x", "version": "1"},
}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_doctor_asks_each_service_for_its_model_by_the_vendors_sdk(serve, tmp_path, capsys, provider):
    replies = {
        "known": Reply(payload=MODEL_RECORDS[provider]),
        "other": Reply(payload={"object": "list", "data": []}) if provider == "openai" else fault(provider, "model"),
        "refused": fault("chat" if provider == "openai" else provider, "auth"),
        "broken": Reply(400, b"<html>"),
    }
    said = {}
    for name, reply in replies.items():
        server = serve(lambda call, reply=reply: reply)
        address = server.url("chat" if provider == "openai" else provider)
        model = {"name": "m", "provider": provider, "base_url": address, "api_key_env": "EVOAUDIT_TEST_KEY"}
        model["model"] = "gemini-x" if provider == "google" else "org/model"
        (tmp_path / "c.yaml").write_text(json.dumps({"models": [model], "judges": []}))
        failed = main(["doctor", "--online", "--configfile", str(tmp_path / "c.yaml"), "--results", str(tmp_path / "results")])
        said[name] = next(line for line in capsys.readouterr().out.splitlines() if "model 'm'" in line)
        assert failed == (name in ("other", "refused")) and CANARY not in said[name] and server.calls
    assert said["known"].startswith("ok") and "takes the key and knows" in said["known"]
    assert said["other"].startswith("FAIL") and "knows no model" in said["other"]
    assert said["refused"].startswith("FAIL") and "refused the key; set EVOAUDIT_TEST_KEY" in said["refused"]
    assert said["broken"].startswith("warn") and "could not be asked" in said["broken"]


def test_doctor_says_when_a_model_is_shut_down(serve, tmp_path, capsys):
    listed = {"object": "list", "data": [{**MODEL_RECORDS["openai"]["data"][0], "shutdown_date": "2027-01-14"}]}
    server = serve(lambda call: Reply(payload=listed))
    model = {"name": "m", "provider": "openai", "model": "org/model", "base_url": server.url("chat")}
    (tmp_path / "c.yaml").write_text(json.dumps({"models": [model]}))
    main(["doctor", "--online", "--configfile", str(tmp_path / "c.yaml"), "--results", str(tmp_path / "results")])
    assert "warn  model 'm': org/model is shut down on 2027-01-14; ask it before" in capsys.readouterr().out

"""Requests a second, processor time and memory of asking a model, against bare clients.

    python benchmarks/inference.py [--requests 300] [--repeats 3] [--pictures 90] [--delays 0 50] [--inspect PYTHON] [--sides SIDE …]

Every request carries three pictures of side 512 (104 KiB each as PNG), 32 are in flight, and a server process on the loopback
answers after a delay. Each side is a process of its own; sides take turns, and medians are printed. Imports are in no figure
but memory. The command fails if ours is slower than aiohttp, takes more processor time than it or more than 150 MB, or if asking a
finished stage again takes more than a millisecond an item.

    aiohttp  one session; pictures are encoded and the body is built for each request, the answer is decoded; nothing is kept
    openai   OpenAI's SDK, the same; its own tries are off
    ours     `predict` as the workflow runs it: prepared pictures from Parquet, hashed and encoded once, request keys, the gate, the
             price of each answer against a budget, a journal on disk after each answer, a table at the end; chat, Gemini and Messages
    again    the finished stage once more: nothing is sent, and there is no server
    inspect  inspect-ai by its defaults (32 connections, no display), with ``--inspect`` the Python that has it
"""

import argparse
import asyncio
import base64
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

FLIGHT = 32
SIZE = (512, 288)
SYSTEM = "You compare screenshots of one application and answer with a JSON object and nothing else."
QUESTION = "The first screen is where a user started. Which of the two candidates followed after one action? Answer with A or B."
#: Most memory, MB.
LARGEST = 150.0
OURS = {"ours": "openai", "ours-google": "google", "ours-anthropic": "anthropic"}
SIDES = ("aiohttp", "openai", *OURS, "again")


def make_pictures(folder: Path, count: int) -> None:
    """Write pictures of the size real ones have: 104 KiB as PNG."""
    import random
    from io import BytesIO

    from PIL import Image

    from evoaudit import store

    rows = []
    for n in range(count):
        noise = random.Random(n).randbytes(SIZE[0] * 68 * 3)
        picture = Image.new("RGB", SIZE, (n % 256, n // 256, 200))
        picture.paste(Image.frombytes("RGB", (SIZE[0], 68), noise), (0, 20))
        out = BytesIO()
        picture.save(out, "PNG")
        name = f"{n:064d}"
        (folder / f"{name}.png").write_bytes(out.getvalue())
        rows.append(
            {
                "image_id": name,
                "max_image_side": 512,
                "width": SIZE[0],
                "height": SIZE[1],
                "format": "PNG",
                "resampling": "none",
                "data": out.getvalue(),
            }
        )
    import pyarrow as pa
    import pyarrow.parquet as pq

    from evoaudit import prepare, schema

    table = store.check(pa.Table.from_pylist(rows, schema=schema.TABLES["prepared"]), "prepared")
    pq.write_table(table, folder / "prepared.parquet", row_group_size=prepare._GROUP, compression="none", use_dictionary=False)


def make_probes(folder: Path, requests: int, count: int) -> None:
    """Write the probes of the requests, as mining does."""
    from evoaudit import schema, store
    from evoaudit.probes import mining

    fill = {"string": "", "int32": 0, "bool": True}
    empty = {field.name: None if field.nullable else fill.get(str(field.type)) for field in schema.TABLES["t3"]}
    rows = ({**empty, "instance_id": f"i{n:06d}", "goal": f"goal {n}", "images": shown(n, count)} for n in range(requests))
    store.write_table(folder, "t3", rows, group=mining.GROUP)


def shown(request: int, count: int) -> list[str]:
    """Return the names of one request's three pictures, which lie anywhere in the file."""
    return [f"{(3 * request + n) * 7919 % count:064d}" for n in range(3)]


def measured(run: Callable[[], None]) -> dict[str, float]:
    """Return seconds and processor seconds of a call, and the process's peak memory in MB."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    run()
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    processor = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    # Not ru_maxrss, which begins with what the parent process held.
    (peak,) = (line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return {"seconds": seconds, "processor": processor, "peak": int(peak) * 1024 / 1e6}


async def in_flight(ask: Callable[[int], Awaitable[str]], requests: int) -> None:
    """Ask all, 32 at a time."""
    gate = asyncio.Semaphore(FLIGHT)

    async def one(number: int) -> None:
        async with gate:
            assert json.loads(await ask(number))["answer"] == "A"

    await asyncio.gather(*(one(number) for number in range(requests)))


def messages(pictures: list[bytes]) -> list[dict]:
    """Return one request's messages, pictures encoded."""
    content: list[dict] = [{"type": "text", "text": QUESTION}]
    for label, data in zip(("Starting screen:", "Candidate A:", "Candidate B:"), pictures, strict=True):
        url = f"data:image/png;base64,{base64.b64encode(data).decode()}"
        content += [{"type": "text", "text": label}, {"type": "image_url", "image_url": {"url": url}}]
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]


def bare(port: int, requests: int, count: int, folder: Path) -> dict[str, float]:
    """Ask with aiohttp and nothing else."""
    import aiohttp

    held = {name: (folder / f"{name}.png").read_bytes() for request in range(requests) for name in shown(request, count)}

    async def run() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def ask(number: int) -> str:
                pictures = [held[name] for name in shown(number, count)]
                body = {"model": "m", "temperature": 0, "max_tokens": 4096, "messages": messages(pictures)}
                async with session.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body) as reply:
                    return (await reply.json())["choices"][0]["message"]["content"]

            await in_flight(ask, requests)

    return measured(lambda: asyncio.run(run()))


def sdk(port: int, requests: int, count: int, folder: Path) -> dict[str, float]:
    """Ask with OpenAI's SDK."""
    import openai

    held = {name: (folder / f"{name}.png").read_bytes() for request in range(requests) for name in shown(request, count)}

    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as client:

            async def ask(number: int) -> str:
                sent = messages([held[name] for name in shown(number, count)])
                reply = await client.chat.completions.create(model="m", temperature=0, max_tokens=4096, messages=sent)
                return reply.choices[0].message.content

            await in_flight(ask, requests)

    return measured(lambda: asyncio.run(run()))


def ours(provider: str, port: int, requests: int, count: int, folder: Path) -> dict[str, float]:
    """Ask as the workflow does."""
    import datetime

    import aiohttp  # noqa: F401  imports are in no figure
    import pyarrow.parquet as pq

    from evoaudit import prepared, prompts, store
    from evoaudit.infer import prices, providers
    from evoaudit.infer.base import Attachments
    from evoaudit.infer.predict import predicting

    address = f"http://127.0.0.1:{port}" + ("/v1" if provider == "openai" else "")
    store.frugal()
    settings = {
        **{"name": "m", "provider": provider, "model": "m", "condition": "full", "max_image_side": 512, "base_url": address},
        **{"endpoint": "loopback", "temperature": 0.0, "max_output_tokens": 4096, "concurrency": FLIGHT, "budget_usd": 1e6},
    }
    providers.make(settings, Attachments(None), 1.0)
    probes = {"t3": store.Rows(folder, "t3")}
    price = prices.Price(input=1.0, cached_input=0.1, output=10.0, date=datetime.date(2026, 1, 1), source="made up")
    prompt_set = prompts.shipped()

    def run() -> None:
        with prepared.Pictures(folder) as pictures:
            out = folder / f"out-{provider}"
            with predicting(settings, probes, pictures, prompt_set, out=out, prices={"m": price}) as rows:
                good = (row for row in rows if row["status"] == "ok" and row["usd"] is not None)
                store.write_table(out, "predictions", good, group=512)
        assert pq.read_metadata(out / "predictions.parquet").num_rows == requests

    return measured(run)


def inspect(port: int, requests: int, count: int, folder: Path) -> dict[str, float]:
    """Ask with inspect-ai."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ContentImage, ContentText, get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate

    samples = []
    for number in range(requests):
        content: list = [ContentText(text=QUESTION)]
        for label, name in zip(("Starting screen:", "Candidate A:", "Candidate B:"), shown(number, count), strict=True):
            content += [ContentText(text=label), ContentImage(image=str(folder / f"{name}.png"))]
        samples.append(Sample(input=[ChatMessageSystem(content=SYSTEM), ChatMessageUser(content=content)], target="A"))
    model = get_model("openai/m", base_url=f"http://127.0.0.1:{port}/v1", api_key="none", responses_api=False)
    task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=includes())

    def run() -> None:
        with tempfile.TemporaryDirectory() as logs:
            (log,) = eval(task, model=model, max_connections=FLIGHT, max_samples=FLIGHT, display="none", log_dir=logs)
        assert log.status == "success"

    return measured(run)


def one(side: str, port: int, requests: int, count: int, folder: Path) -> dict[str, float]:
    """Run one side in this process."""
    if side == "aiohttp":
        return bare(port, requests, count, folder)
    if side == "openai":
        return sdk(port, requests, count, folder)
    if side == "inspect":
        return inspect(port, requests, count, folder)
    return ours(OURS.get(side, "openai"), port, requests, count, folder)


def side_of(side: str, python: str, delay: float, requests: int, count: int, folder: Path) -> dict[str, float]:
    """Run one side in a process of its own, with a server of its own."""
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("inference_server.py")), "--delay", str(delay)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        port = int(server.stdout.readline()) if side != "again" else 9
        words = [python, __file__, "--side", side, "--port", str(port), "--requests", str(requests)]
        done = subprocess.run([*words, "--pictures", str(count), "--work", str(folder)], stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])
    finally:
        server.stdin.close()
        server.wait()


def compare(delay: float, args: argparse.Namespace, folder: Path) -> list[str]:
    """Print one delay's table and return which bounds were missed."""
    sides = [side for side in SIDES if side in args.sides] + (["inspect"] if args.inspect else [])
    results: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(args.repeats):
        for provider in OURS.values():
            for file in (folder / f"out-{provider}").glob("*"):
                file.unlink()
        for side in sides:
            python = args.inspect if side == "inspect" else sys.executable
            results[side].append(side_of(side, python, delay, args.requests, args.pictures, folder))
    middle = {side: {name: statistics.median(run[name] for run in runs) for name in runs[0]} for side, runs in results.items()}
    floor = middle.get("aiohttp")
    print(f"\n{args.requests} requests, {args.pictures} pictures, answered after {delay:g} ms, medians of {args.repeats}\n")
    print("| side | requests/s | × aiohttp | CPU ms/request | × aiohttp | peak MB |\n| --- | ---: | ---: | ---: | ---: | ---: |")
    for side, run in middle.items():
        rate, cpu = args.requests / run["seconds"], run["processor"] / args.requests * 1e3
        faster = f"{floor['seconds'] / run['seconds']:.2f}" if floor else ""
        cheaper = f"{run['processor'] / floor['processor']:.2f}" if floor else ""
        print(f"| {side} | {rate:,.0f} | {faster} | {cpu:.2f} | {cheaper} | {run['peak']:.0f} |", flush=True)
    if args.inspect and "ours" in middle:
        mine, other = middle["ours"], middle["inspect"]
        print(f"\nours against inspect-ai: {other['seconds'] / mine['seconds']:.1f} times the requests a second, ", end="")
        print(f"{other['processor'] / mine['processor']:.1f} times less processor time")
    missed = [f"{side}: {run['peak']:.0f} MB" for side, run in middle.items() if side in (*OURS, "again") and run["peak"] > LARGEST]
    if floor:
        names = {"seconds": "slower", "processor": "dearer"}
        found = [(side, name) for side in OURS if side in middle for name in names if middle[side][name] > floor[name]]
        missed += [f"{side}: {names[name]} than aiohttp" for side, name in found]
    if "again" in middle and middle["again"]["seconds"] > args.requests / 1e3:
        missed.append("again: more than a millisecond an item")
    return missed


def main() -> None:
    """Compare all sides, or run one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--pictures", type=int, default=90, help="distinct pictures; three times the requests for none used twice")
    parser.add_argument("--delays", type=float, nargs="+", default=[0.0, 50.0], help="milliseconds")
    parser.add_argument("--inspect", metavar="PYTHON", help="a Python that has inspect-ai, to compare with it too")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES, help="sides to run (default: all but inspect)")
    parser.add_argument("--work", type=Path, help="folder for pictures and journals (default: a temporary one)")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(one(args.side, args.port, args.requests, args.pictures, args.work)))
        return
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        os.environ.pop(name, None)
        os.environ.pop(name.lower(), None)
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        make_pictures(Path(work), args.pictures)
        make_probes(Path(work), args.requests, args.pictures)
        missed = [fault for delay in args.delays for fault in compare(delay, args, Path(work))]
    if missed:
        sys.exit("\n" + "\n".join(missed))


if __name__ == "__main__":
    main()

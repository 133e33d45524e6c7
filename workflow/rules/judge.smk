"""What can be said about a verdict without people.

Reads: the normalised sources and the sample. Writes: results/signals/<key>/ (the no-op probe and the free Stage-1 signals, for every
trajectory) and results/judge/<key>/judgments.parquet (one judge's labels for the sample). A judge that is a language model has a
journal.jsonl beside it while it runs, as in infer.smk: an answer once paid for is never asked for again, and editing library code asks
nothing anew.
"""


rule signals:
    input:
        normalised=upstream("signals", "normalise"),
        data=data("signals"),
        code=code("signals"),
    output:
        manifest="results/signals/{key}/manifest.json",
        signals="results/signals/{key}/signals.parquet",
        noops="results/signals/{key}/noops.parquet",
    log:
        "results/logs/signals/{key}.log",
    benchmark:
        "results/benchmarks/signals/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("signals"),
        options=options("signals"),
    message:
        "Scanning for no-ops and Stage-1 signals."
    shell:
        "python -m evoaudit signals --settings {params.settings:q} {params.options}"
        " --normalised {input.normalised:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"


rule judge:
    input:
        normalised=upstream("judge", "normalise"),
        sampled=upstream("judge", "sample"),
        flagged=upstream("judge", "signals"),
        images=upstream("judge", "images"),
        members=upstream("judge", "judge"),
        data=data("judge"),
        code=judging_code,
    output:
        manifest="results/judge/{key}/manifest.json",
        judgments="results/judge/{key}/judgments.parquet",
    log:
        "results/logs/judge/{key}.log",
    benchmark:
        "results/benchmarks/judge/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
        openai=in_flight("openai", "judge"),
        google=in_flight("google", "judge"),
        anthropic=in_flight("anthropic", "judge"),
        codex=in_flight("codex", "judge"),
        local=in_flight("local", "judge"),
    params:
        settings=settings("judge"),
        options=options("judge"),
    message:
        "Judging the sample."
    shell:
        "python -m evoaudit judge --settings {params.settings:q} {params.options}"
        " --normalised {input.normalised:q} --sample {input.sampled:q} --signals {input.flagged:q}"
        " --images {input.images:q} --judgments {input.members:q}"
        " --in-flight {resources.openai} {resources.google} {resources.anthropic} {resources.codex} {resources.local}"
        " --shelf results/answers --out $(dirname {output.manifest:q}) 2> {log:q}"

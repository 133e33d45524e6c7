"""One model's raw answers under one condition.

Reads: the probes and their prepared pictures. Writes: results/infer/<key>/predictions.parquet, and journal.jsonl beside it while it runs:
an answer once paid for is never asked for again. batches.jsonl stands there too where a model is asked by batches. Good answers are copied to results/answers/, which runs share. Library code is not an
input here, so editing it re-buys nothing. `--resources openai=16` bounds the requests in flight over all jobs that ask that provider;
servers of this machine count as `local`.
"""


rule infer:
    input:
        mined=upstream("infer", "mine"),
        images=upstream("infer", "images"),
        data=data("infer"),
        served=served,
    output:
        manifest="results/infer/{key}/manifest.json",
        predictions="results/infer/{key}/predictions.parquet",
    log:
        "results/logs/infer/{key}.log",
    benchmark:
        "results/benchmarks/infer/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
        openai=in_flight("openai"),
        google=in_flight("google"),
        anthropic=in_flight("anthropic"),
        codex=in_flight("codex"),
        local=in_flight("local"),
    params:
        settings=settings("infer"),
        options=options("infer"),
    message:
        "Asking a model."
    shell:
        "python -m evoaudit infer --settings {params.settings:q} {params.options}"
        " --mined {input.mined:q} --images {input.images:q}"
        " --in-flight {resources.openai} {resources.google} {resources.anthropic} {resources.codex} {resources.local}"
        " --served {input.served:q} --shelf results/answers --out $(dirname {output.manifest:q}) 2> {log:q}"

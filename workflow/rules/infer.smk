"""One model's raw answers under one condition.

Reads: the probes and their prepared pictures. Writes: results/infer/<key>/predictions.parquet, and journal.jsonl beside it while it runs:
an answer once paid for is never asked for again. Library code is not an input here, so editing it re-buys nothing.
"""


rule infer:
    input:
        mined=upstream("infer", "mine"),
        images=upstream("infer", "images"),
        data=data("infer"),
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
    params:
        settings=settings("infer"),
        options=options("infer"),
    message:
        "Asking a model."
    shell:
        "python -m evoaudit infer --settings {params.settings:q} {params.options}"
        " --mined {input.mined:q} --images {input.images:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

"""Answers parsed and scored (EvoGUI A.3).

Reads: the probes and every model's raw answers. Writes: results/score/<key>/scores.parquet, one row a model and instance.
"""


rule score:
    input:
        mined=upstream("score", "mine"),
        predictions=upstream("score", "infer"),
        data=data("score"),
        code=code("score"),
    output:
        manifest="results/score/{key}/manifest.json",
        scores="results/score/{key}/scores.parquet",
    log:
        "results/logs/score/{key}.log",
    benchmark:
        "results/benchmarks/score/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("score"),
        options=options("score"),
    message:
        "Scoring answers."
    shell:
        "python -m evoaudit score --settings {params.settings:q} {params.options}"
        " --mined {input.mined:q} --predictions {input.predictions:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

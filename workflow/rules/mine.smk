"""Probes from trajectories (EvoGUI §2.3).

Reads: all normalised sources and, to tell near-twins apart, their pictures. Writes: results/mine/<key>/ with t1, t2, t3, drops and
quotas.json (what was wanted, found, valid and taken).
"""


rule mine:
    input:
        normalised=upstream("mine", "normalise"),
        data=data("mine"),
        code=code("mine"),
    output:
        manifest="results/mine/{key}/manifest.json",
        t1="results/mine/{key}/t1.parquet",
        t2="results/mine/{key}/t2.parquet",
        t3="results/mine/{key}/t3.parquet",
        drops="results/mine/{key}/drops.parquet",
        quotas="results/mine/{key}/quotas.json",
    log:
        "results/logs/mine/{key}.log",
    benchmark:
        "results/benchmarks/mine/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("mine"),
        options=options("mine"),
        roots=roots,
    message:
        "Mining probes."
    shell:
        "python -m evoaudit mine --settings {params.settings:q} {params.options}"
        " --normalised {input.normalised:q} --root {params.roots}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

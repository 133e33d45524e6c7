"""Every source in the one schema.

Reads: a source's own folder, through its reader. Writes: results/normalise/<key>/ with trajectories, steps, changes, images,
oracle_results, annotations, truth (simulated sources only) and drops. Pictures stay where they are; each is decoded once here.
"""


rule normalise:
    input:
        corpus=upstream("normalise", "simulate"),
        fetched=downloaded,
        data=data("normalise"),
        code=code("normalise"),
    output:
        manifest="results/normalise/{key}/manifest.json",
        trajectories="results/normalise/{key}/trajectories.parquet",
        steps="results/normalise/{key}/steps.parquet",
        changes="results/normalise/{key}/changes.parquet",
        images="results/normalise/{key}/images.parquet",
        oracle_results="results/normalise/{key}/oracle_results.parquet",
        annotations="results/normalise/{key}/annotations.parquet",
        truth="results/normalise/{key}/truth.parquet",
        drops="results/normalise/{key}/drops.parquet",
    log:
        "results/logs/normalise/{key}.log",
    benchmark:
        "results/benchmarks/normalise/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    threads: 2
    resources:
        mem_mb=2000,
    params:
        settings=settings("normalise"),
        options=options("normalise"),
    message:
        "Normalising one source."
    shell:
        "python -m evoaudit normalise --settings {params.settings:q} {params.options}"
        " --threads {threads} --out $(dirname {output.manifest:q}) 2> {log:q}"

"""Final labels (CUA audit §4.2).

Reads: the sample, the judges' labels, the review set and people's label files. Writes: results/combine/<key>/ with labels (every rater's, none
overwritten), final (one a trajectory, and how it came about) and drops.
"""


rule combine:
    input:
        sampled=upstream("combine", "sample"),
        judgments=upstream("combine", "judge"),
        people=upstream("combine", "people"),
        selected=upstream("combine", "select"),
        data=data("combine"),
        code=code("combine"),
    output:
        manifest="results/combine/{key}/manifest.json",
        labels="results/combine/{key}/labels.parquet",
        final="results/combine/{key}/final.parquet",
        drops="results/combine/{key}/drops.parquet",
    log:
        "results/logs/combine/{key}.log",
    benchmark:
        "results/benchmarks/combine/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("combine"),
        options=options("combine"),
    message:
        "Combining labels."
    shell:
        "python -m evoaudit combine --settings {params.settings:q} {params.options}"
        " --sample {input.sampled:q} --judgments {input.judgments:q} --people {input.people:q} --review {input.selected:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

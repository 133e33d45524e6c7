"""What people are asked to look at (CUA audit §4.2).

Reads: the sample and the judges' labels. Writes: results/select/<key>/review_set.parquet, every disagreement and a stratified draw of the
agreements.
"""


rule select_review:
    input:
        sampled=upstream("select", "sample"),
        judgments=upstream("select", "judge"),
        data=data("select"),
        code=code("select"),
    output:
        manifest="results/select/{key}/manifest.json",
        review_set="results/select/{key}/review_set.parquet",
    log:
        "results/logs/select/{key}.log",
    benchmark:
        "results/benchmarks/select/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("select"),
        options=options("select"),
    message:
        "Choosing the review set."
    shell:
        "python -m evoaudit select --settings {params.settings:q} {params.options}"
        " --sample {input.sampled:q} --judgments {input.judgments:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

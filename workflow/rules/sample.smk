"""The audit sample (CUA audit §4.1).

Reads: the normalised sources, or a frame given as CSV. Writes: results/sample/<key>/sample.parquet, every considered trajectory and why it was
or was not taken.
"""


rule draw_sample:
    input:
        normalised=upstream("sample", "normalise"),
        data=data("sample"),
        code=code("sample"),
    output:
        manifest="results/sample/{key}/manifest.json",
        sample="results/sample/{key}/sample.parquet",
    log:
        "results/logs/sample/{key}.log",
    benchmark:
        "results/benchmarks/sample/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("sample"),
        options=options("sample"),
    message:
        "Drawing the audit sample."
    shell:
        "python -m evoaudit sample --settings {params.settings:q} {params.options}"
        " --normalised {input.normalised:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

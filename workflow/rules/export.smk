"""What others can reuse.

Reads: the probes and the final labels. Writes: results/export/<key>/.
"""


rule write_export:
    input:
        mined=upstream("export", "mine"),
        combined=upstream("export", "combine"),
        computed=upstream("export", "stats"),
        data=data("export"),
        code=code("export"),
    output:
        manifest="results/export/{key}/manifest.json",
        README="results/export/{key}/README.md",
    log:
        "results/logs/export/{key}.log",
    benchmark:
        "results/benchmarks/export/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("export"),
        options=options("export"),
    message:
        "Writing the export."
    shell:
        "python -m evoaudit export --settings {params.settings:q} {params.options}"
        " --mined {input.mined:q} --final {input.combined:q} --stats {input.computed:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

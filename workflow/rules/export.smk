"""What others can reuse.

Reads: the probes and their pictures, the labels, and the normalised sources, for licences and for what was typed where. Writes:
results/export/<key>/, a data set with tasks for other harnesses, or one line that says what may not leave.
"""


rule write_export:
    input:
        mined=upstream("export", "mine"),
        images=upstream("export", "images"),
        sets=upstream("export", "sets"),
        set_images=upstream("export", "set_images"),
        normalised=upstream("export", "normalise"),
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
    threads: 2
    resources:
        mem_mb=3000,
    params:
        settings=settings("export"),
        options=options("export"),
        roots=roots,
    message:
        "Writing the export."
    shell:
        "python -m evoaudit export --settings {params.settings:q} {params.options}"
        " --mined {input.mined:q} --images {input.images:q} --sets {input.sets:q} --set-images {input.set_images:q} --normalised {input.normalised:q} --root {params.roots}"
        " --final {input.combined:q} --stats {input.computed:q} --read results/.read"
        " --threads {threads} --out $(dirname {output.manifest:q}) 2> {log:q}"

"""The pictures of the probes as every model receives them, and those of the audit sample as every judge does.

Reads: the probes or the sample, the normalised sources and their pictures. Writes: results/images/<key>/prepared.parquet, one row a
picture, decoded once and resized once for one maximum side.
"""


rule prepare_images:
    input:
        mined=upstream("images", "mine"),
        sampled=upstream("images", "sample"),
        normalised=upstream("images", "normalise"),
        data=data("images"),
        code=code("images"),
    output:
        manifest="results/images/{key}/manifest.json",
        prepared="results/images/{key}/prepared.parquet",
        drops="results/images/{key}/drops.parquet",
    log:
        "results/logs/images/{key}.log",
    benchmark:
        "results/benchmarks/images/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    threads: 2
    resources:
        mem_mb=2000,
    params:
        settings=settings("images"),
        options=options("images"),
        roots=roots,
    message:
        "Preparing pictures."
    shell:
        "python -m evoaudit images --settings {params.settings:q} {params.options}"
        " --mined {input.mined:q} --sample {input.sampled:q} --normalised {input.normalised:q} --root {params.roots}"
        " --threads {threads} --out $(dirname {output.manifest:q}) 2> {log:q}"

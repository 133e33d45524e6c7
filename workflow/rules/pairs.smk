"""What people look at in the quality control of T3 (EvoGUI §2.4).

Reads: the mined pairs, the normalised sources and their pictures, decisions made before. Writes: results/pairs/<key>/, a page that opens
without a server and exports what `probes.t3.reviewed` names.
"""


rule review_pairs:
    input:
        mined=upstream("pairs", "mine"),
        normalised=upstream("pairs", "normalise"),
        data=data("pairs"),
        code=code("pairs"),
    output:
        manifest="results/pairs/{key}/manifest.json",
        index="results/pairs/{key}/index.html",
    log:
        "results/logs/pairs/{key}.log",
    benchmark:
        "results/benchmarks/pairs/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    threads: 2
    resources:
        mem_mb=2000,
    params:
        settings=settings("pairs"),
        options=options("pairs"),
        roots=roots,
    message:
        "Laying T3 pairs out for people to look at."
    shell:
        "python -m evoaudit pairs --settings {params.settings:q} {params.options} --threads {threads}"
        " --mined {input.mined:q} --normalised {input.normalised:q} --root {params.roots}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

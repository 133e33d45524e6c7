"""The pages on which people judge trajectories (CUA audit §4.2), one folder a group.

Reads: the review set, the sample, the normalised sources and their pictures. Writes: results/replay/<key>/<group>/, a page that opens
without a server and exports label rows, and keys/<group>.json, which says which trajectory an item of the page is.
"""


rule review_replay:
    input:
        review=upstream("replay", "select"),
        sampled=upstream("replay", "sample"),
        normalised=upstream("replay", "normalise"),
        data=data("replay"),
        code=code("replay"),
    output:
        manifest="results/replay/{key}/manifest.json",
    log:
        "results/logs/replay/{key}.log",
    benchmark:
        "results/benchmarks/replay/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    threads: 2
    resources:
        mem_mb=2000,
    params:
        settings=settings("replay"),
        options=options("replay"),
        roots=roots,
    message:
        "Laying trajectories out for people to judge."
    shell:
        "python -m evoaudit replay --settings {params.settings:q} {params.options} --threads {threads}"
        " --review {input.review:q} --sample {input.sampled:q} --normalised {input.normalised:q} --root {params.roots}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

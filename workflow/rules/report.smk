"""The report.

Reads: tables, figures, and examples from every stage. Writes: results/report/<key>/, a page that opens without a server, and items/
beside it, where every item can be looked at.
"""


rule build_report:
    input:
        normalised=upstream("report", "normalise"),
        mined=upstream("report", "mine"),
        scored=upstream("report", "score"),
        predictions=upstream("report", "infer"),
        sampled=upstream("report", "sample"),
        flagged=upstream("report", "signals"),
        judgments=upstream("report", "judge"),
        selected=upstream("report", "select"),
        combined=upstream("report", "combine"),
        computed=upstream("report", "stats"),
        rendered=upstream("report", "tables"),
        drawn=upstream("report", "figures"),
        images=upstream("report", "images"),
        sets=upstream("report", "sets"),
        set_images=upstream("report", "set_images"),
        set_scores=upstream("report", "set_score"),
        set_predictions=upstream("report", "set_infer"),
        data=data("report"),
        code=code("report"),
    output:
        manifest="results/report/{key}/manifest.json",
        index="results/report/{key}/index.html",
    log:
        "results/logs/report/{key}.log",
    benchmark:
        "results/benchmarks/report/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("report"),
        options=options("report"),
        roots=roots,
    message:
        "Building the report."
    shell:
        "python -m evoaudit report --settings {params.settings:q} {params.options}"
        " --stats {input.computed:q} --tables {input.rendered:q} --figures {input.drawn:q} --images {input.images:q}"
        " --normalised {input.normalised:q} --mined {input.mined:q} --scores {input.scored:q} --predictions {input.predictions:q}"
        " --sets {input.sets:q} --set-images {input.set_images:q} --set-scores {input.set_scores:q} --set-predictions {input.set_predictions:q}"
        " --sample {input.sampled:q} --signals {input.flagged:q} --judgments {input.judgments:q} --review {input.selected:q} --final {input.combined:q}"
        " --root {params.roots}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

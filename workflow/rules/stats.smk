"""Every number, then every table and figure.

Reads: whatever the run has of scores, labels, signals and counts. Writes: results/stats/<key>/, one Parquet a table with full precision;
results/tables/<key>/, the same as CSV, Markdown and LaTeX; results/figures/<key>/.
"""


rule stats:
    input:
        normalised=upstream("stats", "normalise"),
        controls=upstream("stats", "control"),
        mined=upstream("stats", "mine"),
        scored=upstream("stats", "score"),
        predictions=upstream("stats", "infer"),
        sets=upstream("stats", "sets"),
        set_predictions=upstream("stats", "set_infer"),
        set_scores=upstream("stats", "set_score"),
        sampled=upstream("stats", "sample"),
        flagged=upstream("stats", "signals"),
        judgments=upstream("stats", "judge"),
        selected=upstream("stats", "select"),
        combined=upstream("stats", "combine"),
        data=data("stats"),
        code=code("stats"),
        published=PRINTED,
    output:
        manifest="results/stats/{key}/manifest.json",
        index="results/stats/{key}/tables.json",
    log:
        "results/logs/stats/{key}.log",
    benchmark:
        "results/benchmarks/stats/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("stats"),
        options=options("stats"),
    message:
        "Computing every table."
    shell:
        "python -m evoaudit stats --settings {params.settings:q} {params.options}"
        " --normalised {input.normalised:q} --controls {input.controls:q} --mined {input.mined:q} --scores {input.scored:q} --predictions {input.predictions:q}"
        " --sets {input.sets:q} --set-predictions {input.set_predictions:q} --set-scores {input.set_scores:q}"
        " --sample {input.sampled:q} --signals {input.flagged:q} --judgments {input.judgments:q} --review {input.selected:q} --final {input.combined:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"


rule render_tables:
    input:
        computed=upstream("tables", "stats"),
        data=data("tables"),
        code=code("tables"),
    output:
        manifest="results/tables/{key}/manifest.json",
        tables=report(
            collect("results/tables/{{key}}/{name}.csv", name=TABLES),
            caption="../report/table.rst",
            category="Tables",
        ),
    log:
        "results/logs/tables/{key}.log",
    benchmark:
        "results/benchmarks/tables/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    params:
        settings=settings("tables"),
        options=options("tables"),
    message:
        "Rendering the tables."
    shell:
        "python -m evoaudit tables --settings {params.settings:q} {params.options}"
        " --stats {input.computed:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"


rule draw_figures:
    input:
        computed=upstream("figures", "stats"),
        data=data("figures"),
        code=code("figures"),
    output:
        manifest="results/figures/{key}/manifest.json",
        figures=report(
            collect("results/figures/{{key}}/{name}.svg", name=FIGURES),
            caption="../report/figure.rst",
            category="Figures",
        ),
    log:
        "results/logs/figures/{key}.log",
    benchmark:
        "results/benchmarks/figures/{key}.jsonl"
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        mem_mb=2000,
    params:
        settings=settings("figures"),
        options=options("figures"),
    message:
        "Drawing the figures."
    shell:
        "python -m evoaudit figures --settings {params.settings:q} {params.options}"
        " --stats {input.computed:q}"
        " --out $(dirname {output.manifest:q}) 2> {log:q}"

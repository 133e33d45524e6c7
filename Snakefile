"""EvoAudit: logged trajectories in, audited verdicts and probe scores out.

    snakemake --cores N                                  the default config, offline
    snakemake TARGET --cores N --configfile MINE.yaml    any other run

The target comes first: Snakemake takes every word after --configfile for a config file.

Targets: all, download, data, probes, evogui, sample, audit, review, tables, figures, report, export, paper.
"""

from snakemake.utils import min_version

min_version("9.27")

if not workflow.overwrite_configfiles:

    configfile: f"{workflow.basedir}/config/config.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/download.smk"
include: "workflow/rules/normalise.smk"
include: "workflow/rules/mine.smk"
include: "workflow/rules/pairs.smk"
include: "workflow/rules/images.smk"
include: "workflow/rules/serve.smk"
include: "workflow/rules/infer.smk"
include: "workflow/rules/score.smk"
include: "workflow/rules/sample.smk"
include: "workflow/rules/judge.smk"
include: "workflow/rules/review.smk"
include: "workflow/rules/replay.smk"
include: "workflow/rules/combine.smk"
include: "workflow/rules/stats.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/export.smk"


workflow.default_target = "all"


# results/logs/status/ says how far the run is, for as long as it runs; the summary comes at the end.
onstart:
    from evoaudit.watch import keep

    keep.start(workflow, PLAN)


onsuccess:
    from evoaudit.watch import keep

    keep.end("finished")


onerror:
    from evoaudit.watch import keep

    keep.end("failed")


# The rules below are what people ask for. They have no output of their own: each lays finished stages out under
# results/runs/<name>/ every time it is called, so what people see can never be older than what was computed. For the same
# reason they have no benchmark: Snakemake counts it as an output, and would find them done. They copy and no more, so on a cluster
# they run where Snakemake does.


localrules:
    all,
    download,
    data,
    probes,
    evogui,
    sample,
    audit,
    review,
    tables,
    figures,
    paper,
    report,
    export,


rule all:
    input:
        finished=manifests("tables", "figures", "report", "select"),
        everything=EVERYTHING,
    log:
        "results/logs/publish/all.log",
    conda:
        "envs/evoaudit.yaml"
    params:
        run=RUN,
        plan=KEYS,
    message:
        "Everything the config enables."
    shell:
        "python -m evoaudit publish --run {params.run:q} --plan {params.plan:q} {input.finished:q} 2> {log:q}"


rule download:
    input:
        listings=listings,
    log:
        "results/logs/publish/download.log",
    conda:
        "envs/evoaudit.yaml"
    threads: 4
    params:
        store=CONFIG.downloads.store,
    message:
        "Every data set on the hub that the config names, file by file as it was pinned."
    shell:
        "python -m evoaudit downloads --store {params.store:q} --threads {threads} {input.listings:q} 2> >(tee {log:q} >&2)"


use rule all as data with:
    input:
        finished=manifests("normalise"),
    log:
        "results/logs/publish/data.log",
    message:
        "Every source in the shared schema."


use rule all as probes with:
    input:
        finished=manifests("mine") + prepared(),
    log:
        "results/logs/publish/probes.log",
    message:
        "The probes and their pictures."


use rule all as evogui with:
    input:
        finished=manifests("score"),
    log:
        "results/logs/publish/evogui.log",
    message:
        "Every model's scored answers."


use rule all as sample with:
    input:
        finished=manifests("sample"),
    log:
        "results/logs/publish/sample.log",
    message:
        "The audit sample."


use rule all as audit with:
    input:
        finished=manifests("signals", "combine"),
    log:
        "results/logs/publish/audit.log",
    message:
        "The judged and combined audit."


use rule all as review with:
    input:
        finished=manifests("select", "replay", "pairs"),
    log:
        "results/logs/publish/review.log",
    message:
        "What people are asked to look at: trajectories, and the T3 pairs."


use rule all as tables with:
    input:
        finished=manifests("tables"),
    log:
        "results/logs/publish/tables.log",
    message:
        "Every table."


use rule all as figures with:
    input:
        finished=manifests("figures"),
    log:
        "results/logs/publish/figures.log",
    message:
        "Every figure."


use rule all as paper with:
    input:
        finished=manifests("tables", "figures"),
    log:
        "results/logs/publish/paper.log",
    message:
        "What a paper needs: tables and figures."


use rule all as report with:
    input:
        finished=manifests("tables", "figures", "report"),
    log:
        "results/logs/publish/report.log",
    message:
        "The report, with the tables and figures it links to."


use rule all as export with:
    input:
        finished=manifests("export"),
    log:
        "results/logs/publish/export.log",
    message:
        "What others can reuse."

"""An inference server for a model whose entry says how to start one.

Reads: nothing. Writes: results/serve/<model>.json, which says where the server is while it runs. Snakemake starts it together with
that model's jobs and stops it when the last of them is done. `--resources serving=1` runs one server at a time.
"""


rule serve:
    output:
        state=service("results/serve/{model}.json"),
    log:
        "results/logs/serve/{model}.log",
    wildcard_constraints:
        model=r"[A-Za-z0-9][A-Za-z0-9._-]*",
    conda:
        "../../envs/evoaudit.yaml"
    resources:
        serving=1,
    params:
        settings=serving,
    message:
        "Starting the server of {wildcards.model}."
    shell:
        "exec python -m evoaudit serve --settings {params.settings:q} --out {output.state:q} 2> {log:q}"

#!/usr/bin/env bash
# One real Slurm node on this machine, for tests: no systemd, no control groups. As root, with Debian's slurmctld, slurmd, slurm-client and munge.
#   slurm_node.sh start FOLDER [accounting]   everything it writes lies in FOLDER, but for the link /etc/slurm/slurm.conf; again does nothing
#   slurm_node.sh stop FOLDER                 ends what start started, and takes the link away
# With accounting it needs slurmdbd, mariadb-server-core and mariadb-client-core too; the database listens on no port.
set -euo pipefail
what=${1:?start or stop} folder=$(realpath -m "${2:?a folder}") accounting=${3:-}
conf=/etc/slurm/slurm.conf host=$(hostname -s)
cpus=$(nproc)
memory=$(awk '/^MemTotal/ {print int($2 / 1024 * 0.9)}' /proc/meminfo)

fail() {
    echo "slurm_node: $*" >&2
    tail -n 15 "$folder"/*.log >&2 2>/dev/null || true
    exit 1
}

# A number that now belongs to another program is not ours.
pid_of() {
    local pid
    pid=$(cat "$folder/$1.pid" 2>/dev/null) && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ] && echo "$pid"
}

until_ok() {
    local end=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.2
    done
}

stop() {
    if pid_of slurmctld >/dev/null; then
        timeout 10 scancel --user "$(id -un)" || true
        until_ok 15 bash -c '[ -z "$(timeout 5 squeue --noheader)" ]' || true
    fi
    for daemon in slurmd slurmctld slurmdbd mariadbd munged; do
        if pid=$(pid_of "$daemon"); then
            kill "$pid"
            until_ok 20 test ! -d "/proc/$pid" || kill -KILL "$pid"
        fi
        rm -f "$folder/$daemon.pid"
    done
    if [ "$(readlink $conf)" = "$folder/slurm.conf" ]; then rm $conf; fi
}

# Lines of slurm.conf. Clients find munge's socket for slurmdbd under AccountingStoragePass; rules' names are comments of jobs.
kept_accounts() {
    if [ -z "$accounting" ]; then
        echo "AccountingStorageType=accounting_storage/none"
    else
        cat <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=26919
AccountingStoragePass=$folder/munge.socket
AccountingStorageEnforce=associations
AccountingStoreFlags=job_comment
END
    fi
}

start_accounting() {
    local own=(--no-defaults --user=root --datadir="$folder/database")
    if ! pid_of mariadbd >/dev/null; then
        [ -d "$folder/database/mysql" ] || mariadb-install-db "${own[@]}" --skip-test-db >"$folder/install.log" 2>&1 || fail "no database was made"
        setsid mariadbd "${own[@]}" --socket="$folder/database.socket" --skip-networking --pid-file="$folder/mariadbd.pid" \
            --innodb-lock-wait-timeout=900 </dev/null >"$folder/mariadbd.log" 2>&1 &
        echo $! >"$folder/mariadbd.pid"  # it writes its own only once it answers
    fi
    until_ok 30 mariadb --no-defaults --socket="$folder/database.socket" --execute="create database if not exists accounts" ||
        fail "mariadbd does not answer"
    (
        umask 077
        cat >"$folder/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=26919
SlurmUser=root
LogFile=$folder/slurmdbd.log
PidFile=$folder/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounts
END
    )
    # It looks for its settings where slurm.conf is. The database knows root by its socket, and has no passwords.
    pid_of slurmdbd >/dev/null ||
        MYSQL_UNIX_PORT="$folder/database.socket" SLURM_CONF="$folder/slurm.conf" slurmdbd </dev/null || fail "slurmdbd did not start"
    until_ok 30 timeout 5 sacctmgr --noheader show cluster || fail "slurmdbd does not answer"
    # What is there already is said, and an error.
    for entity in "cluster tests" "account tests" "account lab" "user root account=tests,lab defaultaccount=tests"; do
        # shellcheck disable=SC2086
        sacctmgr --immediate --quiet add $entity >>"$folder/sacctmgr.log" 2>&1 || true
    done
}

start() {
    [ "$(id -u)" = 0 ] || fail "only root can start a node"
    local packages="slurmctld slurmd slurm-client munge" programs="slurmctld slurmd sbatch munged"
    if [ "$accounting" ]; then
        packages+=" slurmdbd mariadb-server-core mariadb-client-core" programs+=" slurmdbd mariadbd mariadb-install-db mariadb"
    fi
    for program in $programs; do
        command -v "$program" >/dev/null || fail "$program is not installed: apt-get install --no-install-recommends $packages"
    done
    if [ -e $conf ] && [ "$(readlink $conf)" != "$folder/slurm.conf" ]; then fail "$conf belongs to another Slurm"; fi
    mkdir -p "$folder/state" "$folder/spool" /etc/slurm
    [ -s "$folder/munge.key" ] || (umask 077 && head -c 1024 /dev/urandom >"$folder/munge.key")
    # Memory is shared out, and whoever takes more than asked for is killed within a second or two; finished jobs are remembered for long,
    # as squeue is asked about them; a job starts when it can and not at the next round.
    cat >"$folder/slurm.conf" <<END
ClusterName=tests
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=26917
SlurmdPort=26918
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=UsePss,OverMemoryKill
$(kept_accounts)
SchedulerParameters=batch_sched_delay=0,bf_interval=1
KillWait=3
MinJobAge=3600
NodeName=node NodeHostname=$host NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory State=UNKNOWN
PartitionName=tests Nodes=node Default=YES DefaultTime=10 MaxTime=UNLIMITED State=UP
PartitionName=other Nodes=node Default=NO DefaultTime=10 MaxTime=UNLIMITED State=UP
END
    # Snakemake's job steps forget SLURM_CONF, so the file is where Slurm looks by itself.
    ln -sfn "$folder/slurm.conf" $conf
    if ! pid_of munged >/dev/null; then
        rm -f "$folder"/munge.socket*
        munged --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
            --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" </dev/null || fail "munged did not start"
    fi
    until_ok 10 munge -S "$folder/munge.socket" -n || fail "munged does not answer"
    if [ "$accounting" ]; then start_accounting; fi
    pid_of slurmctld >/dev/null || slurmctld </dev/null || fail "slurmctld did not start"
    pid_of slurmd >/dev/null || slurmd -N node </dev/null || fail "slurmd did not start"
    until_ok 30 timeout 5 srun --time=1 --mem=100 true || fail "a trial job did not run"
}

case $what in
start) start ;;
stop) stop ;;
*) fail "start or stop" ;;
esac

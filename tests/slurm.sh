#!/usr/bin/env bash
# A Slurm of this machine alone: one controller, one worker daemon, on loopback addresses. For tests; needs root.
#     tests/slurm.sh start FOLDER    tests/slurm.sh stop FOLDER
set -euo pipefail
action=$1 folder=$(realpath -m "$2")
if [ "$action" = stop ]; then
    for name in slurmd slurmctld munged; do
        [ -f "$folder/$name.pid" ] && kill "$(cat "$folder/$name.pid")" || true
    done
    exit
fi
command -v sbatch slurmctld slurmd munged > /dev/null || apt-get install -y --no-install-recommends slurm-wlm munge
mkdir -p "$folder"/{state,spool}
name=$(hostname -s)
cat > "$folder/slurm.conf" <<CONF
ClusterName=nooch
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
MaxArraySize=1001
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
KillWait=3
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu
NodeName=$name NodeAddr=127.0.0.1 CPUs=2 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=$name Default=YES MaxTime=INFINITE State=UP
CONF
# two GPUs that are none: Slurm counts their files and tells jobs their numbers
printf 'Name=gpu File=%s\n' /dev/null /dev/zero > "$folder/gres.conf"
export SLURM_CONF="$folder/slurm.conf"
[ -f "$folder/munge.key" ] || head -c 1024 /dev/urandom > "$folder/munge.key"
chmod 0600 "$folder/munge.key"
munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
slurmctld -f "$SLURM_CONF"
slurmd -f "$SLURM_CONF"
for _ in $(seq 30); do
    sinfo --noheader --format=%T | grep --quiet idle && exit
    sleep 1
done
sinfo; tail "$folder"/*.log
exit 1

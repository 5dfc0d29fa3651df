#!/bin/sh
# A real SLURM of one node in one folder, as root and without systemd:  slurm.sh start DIR,  slurm.sh stop DIR
# Partition low can be preempted by partition high. Afterwards: export SLURM_CONF=DIR/slurm.conf
set -eu
D=$2
H=$(hostname)

if [ "$1" = stop ]; then
  export SLURM_CONF="$D/slurm.conf"
  timeout 10 scancel --user="$(id -un)" 2>/dev/null || true
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ -z "$(timeout 5 squeue --noheader 2>/dev/null)" ] && break
    sleep 1
  done
  for name in slurmd slurmctld munge/munged; do
    [ -f "$D/$name.pid" ] && kill "$(cat "$D/$name.pid")" 2>/dev/null || true
  done
  exit 0
fi

if ! command -v sbatch >/dev/null || ! command -v munged >/dev/null; then
  { apt-get update && apt-get install -y --no-install-recommends slurm-wlm munge; } >/dev/null 2>&1 || {
    echo "the packages slurm-wlm and munge cannot be installed here" >&2; exit 3; }
fi
[ "$(id -u)" = 0 ] || { echo "starting SLURM's daemons needs root" >&2; exit 3; }

mkdir -p "$D/state" "$D/spool" "$D/log" "$D/munge"
chown munge: "$D/munge"
chmod 755 "$D" "$D/munge"
[ -f /etc/munge/munge.key ] || { dd if=/dev/urandom of=/etc/munge/munge.key bs=1024 count=1 2>/dev/null
  chown munge: /etc/munge/munge.key; chmod 400 /etc/munge/munge.key; }
setpriv --reuid=munge --regid=munge --clear-groups munged --socket="$D/munge/munge.socket" \
  --pid-file="$D/munge/munged.pid" --log-file="$D/munge/munged.log" --seed-file="$D/munge/munged.seed"

cat > "$D/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$H(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$D/munge/munge.socket
CredType=cred/munge
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd.pid
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SchedulerParameters=sched_interval=2,batch_sched_delay=0
MinJobAge=300
MaxArraySize=${MAX_ARRAY_SIZE:-1001}
KillWait=20
SlurmdTimeout=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=$H NodeAddr=127.0.0.1 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 State=UNKNOWN
PartitionName=low Nodes=$H Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=$H MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
CONF
export SLURM_CONF="$D/slurm.conf"
slurmctld
sleep 1
slurmd -N "$H"
for _ in 1 2 3 4 5 6 7 8 9 10; do
  sinfo --noheader --format %T 2>/dev/null | grep -q idle && exit 0
  sleep 1
done
echo "SLURM does not get up; its logs are in $D/log" >&2
exit 3

#!/bin/sh
# Gathers what `nodeprep snapshot` records, on a node without Python packages: one tar file of text.
# usage: sudo ./nodeprep-snapshot.sh [FILE.tar.gz]
#
# NOT redacted: serials, UUIDs, host names and addresses are in it.  Read it before you send it.
# Needs a POSIX shell and tar; uses lspci, setpci, nvidia-smi, dmesg where they are.
set -u
umask 077

out=${1:-nodeprep-evidence.tar.gz}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT INT TERM
folder=$work/evidence
mkdir "$folder" || exit 1

[ "$(id -u)" = 0 ] || echo "not root: the ACS registers will be missing" >&2

# keep NAME COMMAND...: the output in a file of that name; bounded in time where timeout exists.
limit=''
command -v timeout >/dev/null 2>&1 && limit='timeout 60'
keep() {
    name=$1
    shift
    command -v "$1" >/dev/null 2>&1 || return 0
    # shellcheck disable=SC2086 # the limit is two words, or none
    LC_ALL=C $limit "$@" > "$folder/$name" 2>"$folder/$name.stderr" < /dev/null
    status=$?
    [ -s "$folder/$name.stderr" ] || rm -f "$folder/$name.stderr"
    [ "$status" = 0 ] || echo "$name: exit $status" >> "$folder/statuses.txt"
}

# copy NAME FILE: a small file as it is.
copy() {
    [ -r "$2" ] && head -c 1048576 "$2" > "$folder/$1" 2>/dev/null
}

echo "gathering into $out ..." >&2
keep topo.txt nvidia-smi topo -m
keep p2p.txt nvidia-smi topo -p2p r
keep p2p_write.txt nvidia-smi topo -p2p w
keep nvidia_smi.txt nvidia-smi
keep nvidia_smi_q.txt nvidia-smi -q
keep gpus.csv nvidia-smi --query-gpu=index,pci.bus_id,name,memory.total,memory.used,compute_cap,pcie.link.gen.current,pcie.link.width.current --format=csv
keep lspci_vvv.txt lspci -D -nn -vvv
keep lspci_tree.txt lspci -tv
keep virt.txt systemd-detect-virt --vm
keep uname.txt uname -r
keep dmesg.txt dmesg --level emerg,alert,crit,err,warn
keep df.txt df -h
copy cmdline.txt /proc/cmdline
copy cpuinfo.txt /proc/cpuinfo
copy meminfo.txt /proc/meminfo
copy modules.txt /proc/modules
copy lockdown.txt /sys/kernel/security/lockdown
copy proc_driver_version.txt /proc/driver/nvidia/version
copy nccl.conf /etc/nccl.conf
copy config.toml /etc/nodeprep/config.toml

# The sysfs side: place in the tree, NUMA node, driver, IOMMU group and its type, ACS word.
: > "$folder/pci.tsv"
for device in /sys/bus/pci/devices/*; do
    [ -e "$device/vendor" ] || continue
    bdf=${device##*/}
    group=$(readlink "$device/iommu_group" 2>/dev/null)
    group=${group##*/}
    driver=$(readlink "$device/driver" 2>/dev/null)
    acs=''
    case $(cat "$device/class" 2>/dev/null) in
        0x0604*) acs=$(setpci -s "$bdf" ECAP_ACS+6.w 2>/dev/null) ;;
    esac
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$bdf" "$(readlink "$device")" \
        "$(cat "$device/vendor" "$device/device" "$device/class" 2>/dev/null | tr '\n' ' ')" \
        "$(cat "$device/numa_node" 2>/dev/null)" "${driver##*/}" "$group" \
        "$(cat "/sys/kernel/iommu_groups/$group/type" 2>/dev/null)" "$acs" >> "$folder/pci.tsv"
done

case $out in
    */*) target=$out ;;
    *) target=./$out ;;
esac
tar -czf "$work/out.tar.gz" -C "$work" evidence || exit 1
mv "$work/out.tar.gz" "$target" || exit 1
echo "$target: $(tar -tzf "$target" | wc -l) entries, not redacted" >&2

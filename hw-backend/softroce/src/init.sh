#!/bin/busybox sh
# The first process of a machine: drivers, addresses, devices; then the program, its output and its exit code.
# Placeholders in braces are filled in when the image is made; the kernel's command line says which machine this is.
export PATH=/bin:/sbin:/usr/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts /tmp
mount -t tmpfs tmp /tmp
ulimit -l unlimited
for word in $(cat /proc/cmdline); do
    case $word in
        softroce.node=*) node=${word#*=} ;;
        softroce.nodes=*) nodes=${word#*=} ;;
    esac
done
control=/dev/ttyS1
stty -F $control raw -echo -onlcr 115200
stty -F /dev/ttyS2 raw -echo -onlcr 115200
exec 3<>$control
finish() {
    sleep 0.2
    echo "exit $1" >&3
    read -r _ <&3
    poweroff -f
}
while read -r module; do
    insmod "/modules/$module" || { echo "insmod $module failed"; finish 125; }
done </modules/order
if [ -b /dev/vda ]; then
    mount -t ext4 /dev/vda /disk || { echo "no disk"; finish 125; }
fi
ip link set lo up
card=0
while [ $card -lt {nics} ]; do
    number=$((node * {nics} + card))
    # Kernels number cards in the order of their slots; the address says which one it is.
    for path in /sys/class/net/*; do
        [ "$(cat $path/address)" = "$(printf '52:54:00:77:00:%02x' $number)" ] && name=${path##*/}
    done
    echo 1 >/proc/sys/net/ipv6/conf/$name/disable_ipv6
    ip addr add 10.77.0.$((number + 1))/24 dev $name
    ip link set $name up
    rdma link add rxe$card type rxe netdev $name || { echo "no rxe on $name"; finish 125; }
    if [ {nics} -gt 1 ]; then
        # Several cards in one machine: what goes from one to another is to leave the machine all the same. So local
        # addresses are local only to what arrives, and to what a card sends to itself; and what arrives may come
        # from an address of our own.
        echo 1 >/proc/sys/net/ipv4/conf/$name/accept_local
        echo 0 >/proc/sys/net/ipv4/conf/$name/rp_filter
        echo 1 >/proc/sys/net/ipv4/conf/$name/arp_ignore
        echo 2 >/proc/sys/net/ipv4/conf/$name/arp_announce
        ip rule add pref 10 iif $name lookup local
        ip rule add pref 11 from 10.77.0.$((number + 1)) to 10.77.0.$((number + 1)) lookup local
        ip route add 10.77.0.0/24 dev $name src 10.77.0.$((number + 1)) table $((100 + card))
        ip rule add pref 12 from 10.77.0.$((number + 1)) lookup $((100 + card))
    fi
    card=$((card + 1))
done
if [ {nics} -gt 1 ]; then
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
    ip rule add pref 13 to 127.0.0.0/8 lookup local
    ip rule add pref 20 lookup main
    ip rule add pref 30 lookup local
    ip rule del pref 0
fi
echo "127.0.0.1 localhost" >/etc/hosts
machine=0
while [ $machine -lt $((nodes * {nics})) ]; do
    echo "10.77.0.$((machine + 1)) n$machine" >>/etc/hosts
    machine=$((machine + 1))
done
hostname n$node
export SOFTROCE_NODE=$node SOFTROCE_NODES=$nodes SOFTROCE_CONTROL=$control SOFTROCE_NICS={nics}
echo ready >&3
read -r _ <&3
cd /tmp
sh /command $node $nodes >/dev/ttyS2 2>&1
code=$?
finish $code

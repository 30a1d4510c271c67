#!/bin/sh
# The pools of ceph.toml, in the cluster that CEPH_CONF names: one for each number of copies and of placement groups.
set -eu

for replicas in 1 2 3; do
    for groups in 1 32; do
        pool=r$replicas-pg$groups
        ceph osd pool create $pool $groups $groups
        ceph osd pool set $pool size $replicas --yes-i-really-mean-it
        ceph osd pool application enable $pool rados
    done
done
until ceph status | grep -q HEALTH_OK; do sleep 1; done

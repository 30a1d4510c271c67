# A consumer that waits for a producer which sends a line now and then.
# cause: slow_peer
# where: pipe
(i=0; while [ $i -lt 20 ]; do sleep 0.1; echo line $i; i=$((i + 1)); done) | cat > received.txt

# Two shells that share a file lock; the first keeps it while it sleeps.
# cause: file_lock
# where: shared.lock
# held: yes
: > shared.lock
flock shared.lock sleep 1.2 &
sleep 0.1
flock shared.lock true
wait

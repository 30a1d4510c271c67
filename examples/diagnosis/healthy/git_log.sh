# git log with all changes.
# prepare: yes
# held: yes
if [ "$1" = prepare ]; then
    git init -q repo
    cd repo
    git config user.email nobody@example.org
    git config user.name nobody
    for k in $(seq 12); do
        for i in $(seq 40); do
            mkdir -p d$i
            seq $k $((k + 200)) > d$i/f$k
        done
        git add -A
        git commit -qm "commit $k"
    done
    exit
fi
cd repo && git log -p > ../log

# Calls sync after each small file.
# cause: system_sync
i=0
while [ $i -lt 60 ]; do
    echo $i > part.$i
    sync
    i=$((i + 1))
done

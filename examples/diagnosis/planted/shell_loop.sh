# A shell loop that redirects each command instead of the loop.
# cause: reopened_files
# where: numbers.txt
i=0
while [ $i -lt 30000 ]; do
    echo $i >> numbers.txt
    i=$((i + 1))
done

#!/bin/bash
# usage: csv_stats.sh file.csv column [group column]

file=$1
col=$2
group=$3

if [ ! -f "$file" ] || [ -z "$col" ]; then
    echo "usage: $0 file.csv column [group]" >&2
    exit 1
fi

awk -F, -v col="$col" -v group="$group" '
NR == 1 {
    sub(/\r$/, "")
    for (i = 1; i <= NF; i++) { gsub(/"/, "", $i); idx[$i] = i }
    if (!(col in idx)) { print "no column " col > "/dev/stderr"; exit 1 }
    c = idx[col]
    g = (group in idx) ? idx[group] : 0
    next
}
$c ~ /^-?[0-9.]+$/ {
    k = g ? $g : "total"
    n[k]++; sum[k] += $c
    if (!(k in min) || $c < min[k]) min[k] = $c
    if (!(k in max) || $c > max[k]) max[k] = $c
}
END {
    printf "%-20s %8s %12s %10s %10s %10s\n", "group", "count", "sum", "mean", "min", "max"
    for (k in n) printf "%-20s %8d %12.2f %10.2f %10.2f %10.2f\n", k, n[k], sum[k], sum[k] / n[k], min[k], max[k]
}' "$file"

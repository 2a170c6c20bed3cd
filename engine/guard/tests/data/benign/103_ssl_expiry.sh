#!/bin/bash
# Warn about certificates that expire soon.
WARN_DAYS=${WARN_DAYS:-21}
DOMAINS_FILE=${1:-domains.txt}
MAILTO=${MAILTO:-}

report=""
while read -r domain _; do
    [[ -z "$domain" || "$domain" == \#* ]] && continue
    end=$(echo | timeout 10 openssl s_client -servername "$domain" -connect "$domain:443" 2>/dev/null |
          openssl x509 -noout -enddate 2>/dev/null | cut -d= -f2)
    if [[ -z "$end" ]]; then
        report+="$domain: could not read the certificate"$'\n'
        continue
    fi
    left=$(( ( $(date -d "$end" +%s) - $(date +%s) ) / 86400 ))
    printf '%-30s %4d days\n' "$domain" "$left"
    if (( left < WARN_DAYS )); then
        report+="$domain expires in $left days ($end)"$'\n'
    fi
done < "$DOMAINS_FILE"

if [[ -n "$report" ]]; then
    echo
    echo "$report"
    [[ -n "$MAILTO" ]] && printf '%s' "$report" | mail -s "Certificates about to expire" "$MAILTO"
    exit 1
fi

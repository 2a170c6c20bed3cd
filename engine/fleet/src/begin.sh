# Starts a program of hotcell where the worker of a farm has put its input. The first word is 1 for a program that reports events on descriptor 3,
# the second a file or folder of the home folder that is wanted afterwards (or nothing); the others are NAME=VALUE of its environment, the program
# and its arguments.
# Paths of the sandbox in them (/home/sandbox) become paths here: in hotcell's own worker by links, in any other by their text.
top=$PWD
own=$top/.hotcell-farm
events=$1
keep=$2
shift 2
mkdir -p "$own/home/.hotcell-reports" || exit 125
export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}"
from=/home/sandbox
home=$own/home
if [ "$top" = "$from/project" ]; then
    for entry in "$home"/* "$home"/.[!.]*; do
        [ ! -e "$entry" ] || ln -s "$entry" "$from/${entry##*/}" || exit 125
    done
    home=$from
else
    export HOME="$home"
fi
# swap WORD: sets $out to the word with the paths of here.
swap() {
    rest=$1
    out=
    while :; do
        case $rest in
        *"$from/"*)
            out=$out${rest%%"$from/"*}
            rest=${rest#*"$from/"}
            case $rest in
            project | project/*)
                out=$out$top
                rest=${rest#project}
                ;;
            *) out=$out$home/ ;;
            esac
            ;;
        *"$from")
            out=$out${rest%"$from"}$home
            rest=
            ;;
        *) break ;;
        esac
    done
    out=$out$rest
}
for word do
    shift
    swap "$word"
    set -- "$@" "$out"
done
if [ "$events" = 1 ]; then
    # A pipe, which is what reporters write to.
    exec 4>&1
    {
        env "$@" 3>&1 >&4 4>&-
        echo $? >"$own/status"
        # A process that the program left may hold the pipe.
        (sleep 5; kill "$(cat "$own/reader")") </dev/null >/dev/null 2>&1 4>&- &
    } | {
        exec 4>&- 5<&0
        # By name: the input of a command in the background is /dev/null.
        cat <&5 >"$own/events" &
        exec 5<&-
        echo $! >"$own/reader"
        wait $!
    }
    read -r code <"$own/status" || code=125
    exit "$code"
fi
[ -n "$keep" ] && [ "$home" != "$own/home" ] || exec env "$@"
env "$@"
code=$?
[ ! -e "$home/$keep" ] || cp -R "$home/$keep" "$own/home/" || exit 125
exit "$code"

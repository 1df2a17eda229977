#!/bin/bash
# run.sh BIN OUT POLICY...
bin=$1; out=$2; shift 2
half() { for l in "$@"; do for p in 0.1 1 5 10; do TIDEKV_ROWS=$out.$BASHPID.rows $bin $l $p seeds=3,4,5 "${P[@]}"; done; done; }
P=("$@")
half get-zipf-0.99 get-zipf-0.8 get-hot-keys scan-zipf-0.8 mixed-hot-keys mixed-hot-ranges > $out.a &
half mixed-zipf-0.99 mixed-zipf-0.8 get-hot-ranges scan-zipf-0.99 scan-hot-keys scan-hot-ranges > $out.b &
wait; cat $out.a $out.b > $out.txt; echo done >> $out.done

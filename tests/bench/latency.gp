# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# Typical latency and its upper percentiles, for each stack. tests/bench/report sets file and what.

set terminal svg size 800,500 dynamic background rgb 'white'
set output file
set title what
set style data histograms
set style fill solid 0.8
set ylabel 'us'
set logscale y
set key left top
set grid ytics
plot 'latency.tsv' using 2:xtic(1) title 'typical', '' using 3 title '99 %', '' using 4 title '99.9 %'

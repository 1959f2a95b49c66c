# SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
# A figure with curves over sizes or numbers. tests/bench/report sets file, what, unit, x, plots.

set terminal svg size 800,500 dynamic background rgb 'white'
set output file
set title what
set logscale x 2
set logscale y
set xlabel x
set ylabel unit
set key left top
set grid
eval 'plot '.plots

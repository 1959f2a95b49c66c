/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* version.h - the version of this release; Makefile and CMakeLists.txt read it here */
#ifndef XIW_VERSION_H
#define XIW_VERSION_H

#define XIW_VERSION "0.2.0"

#endif

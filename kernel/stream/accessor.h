/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* accessor.h - how memory calls back into the two directions of a queue pair */
#ifndef XIW_ACCESSOR_H
#define XIW_ACCESSOR_H

struct xiw_qp;

/* accessor.c APIs */

/*
 * Sets up both accessors for the life of @qp. Return: 0, or -ENOMEM. The caller has to call
 * xiw_accessor_exit() in both cases.
 */
int xiw_accessor_init(struct xiw_qp *qp);

/*
 * After this no fetch of pages resumes either accessor. No socket is attached any more. May sleep.
 */
void xiw_accessor_exit(struct xiw_qp *qp);

#endif /* XIW_ACCESSOR_H */

/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* pause.h - lets a test make a test build wait or fail at a named place */
#ifndef XIW_PAUSE_H
#define XIW_PAUSE_H

#include <linux/types.h>

#ifdef XIW_TEST
/**
 * xiw_pause - wait here if a test asked for it
 * @place: name of the place
 *
 * The module parameter "pause" names one place and how long to wait there: "PLACE MILLISECONDS".
 * Where sleeping is not allowed, the wait is a busy loop. Other builds contain no code for it.
 *
 * Context: any.
 */
void xiw_pause(const char *place);

/**
 * xiw_fails - whether a test asked for a failure here
 * @place: name of the place
 *
 * The module parameter "fail" names one place. In other builds this is constant false.
 *
 * Context: any.
 * Return: true if a test asked for it.
 */
bool xiw_fails(const char *place);
#else
static inline void xiw_pause(const char *place)
{
}

static inline bool xiw_fails(const char *place)
{
	return false;
}
#endif

#endif /* XIW_PAUSE_H */

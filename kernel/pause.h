/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* pause.h - where a test build can be told to wait or to fail, so that a test can force it */
#ifndef XIW_PAUSE_H
#define XIW_PAUSE_H

#include <linux/types.h>

#ifdef XIW_TEST
/**
 * xiw_pause - wait here if a test asked for it
 * @place: name of the place
 *
 * The module parameter "pause" names one place and how long to wait there: "PLACE MILLISECONDS".
 * The wait is busy where nobody may sleep. Other builds have no code for it.
 *
 * Context: any.
 */
void xiw_pause(const char *place);

/**
 * xiw_fails - whether a test asked for a failure here
 * @place: name of the place
 *
 * The module parameter "fail" names one place. In other builds the answer is no when they are made.
 *
 * Context: any.
 * Return: true if the test did.
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

/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* setting.h - the settings of a device: /sys/class/infiniband/NAME/xiw/ */
#ifndef XIW_SETTING_H
#define XIW_SETTING_H

#include <linux/spinlock.h>
#include <linux/types.h>
#include <net/tcp.h>

struct attribute_group;
struct socket;

/*
 * Settings that are numbers. Range, default and name of each are in setting.c, their meaning is in
 * USING.md. A change applies to connections that are made after it.
 */
enum xiw_setting {
	XIW_SET_CRC,			/* ask for CRCs (RFC 5044 section 4.4) */
	/*
	 * A responder sends nothing until the first FPDU has arrived (RFC 5044 section 7.1.2 rule
	 * 4). Must be off for initiators that wait for the responder to send first, as siw does.
	 */
	XIW_SET_RESPONDER_HOLD,
	XIW_SET_LOOPBACK,		/* connections within this host bypass TCP (loop.c) */
	XIW_SET_LARGE_FPDUS,		/* offer the peer FPDUs that span TCP segments */
	XIW_SET_CONNECT_MS,		/* for connecting and the peer's Reply together */
	XIW_SET_REQUEST_MS,		/* for the peer's Request */
	XIW_SET_OPENING_MS,		/* for its first message in the peer-to-peer model */
	XIW_SET_RECEIVE_WAIT_MS,	/* that a Send may wait for a receive request */
	XIW_SET_CLOSE_MS,		/* for the farewell to the peer */
	XIW_SET_HALF_OPEN,		/* half-open connections of a listener */
	XIW_SET_SPIN_US,		/* that a worker watches an empty ring */
	XIW_SET_GATHER_US,		/* that requests may gather on the only CPU */
	XIW_SET_RCVBUF,			/* bytes that TCP's receive buffer has at least */
	XIW_SET_USER_TIMEOUT_MS,	/* TCP_USER_TIMEOUT; 0: that of the system */
	XIW_SET_KEEPALIVE_S,		/* TCP_KEEPIDLE; 0: that of the system */
	XIW_SET_DSCP,			/* of connections whose program sets no type of service */
	XIW_NUM_SETTINGS
};

/* struct xiw_tune_name - the name of a congestion control of TCP, or empty */
struct xiw_tune_name {
	char	text[TCP_CA_NAME_MAX];
};

/**
 * struct xiw_settings - the settings of one device
 * @value: the numbers, written with WRITE_ONCE()
 * @lock: guards all below; leaf, process context
 * @congestion: TCP's congestion control; empty for that of the system (conn/tune.c)
 * @congestion_user: a socket that uses it and so keeps its module loaded, or NULL
 */
struct xiw_settings {
	u32			value[XIW_NUM_SETTINGS];
	spinlock_t		lock;
	struct xiw_tune_name	congestion;
	struct socket		*congestion_user;
};

static inline u32 xiw_setting(const struct xiw_settings *settings, enum xiw_setting which)
{
	return READ_ONCE(settings->value[which]);
}

extern const struct attribute_group xiw_setting_group;

/* setting.c APIs */

/* Set all to their defaults, and give up what they use. */
void xiw_settings_default(struct xiw_settings *settings);
void xiw_settings_end(struct xiw_settings *settings);

/* Fills in the group of attributes. Call it once, before there is a device. */
void xiw_settings_init(void);

#endif /* XIW_SETTING_H */

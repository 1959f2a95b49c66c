/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* stream_kernel.h - the kernel's two ends of a stream of FPDUs, for a caller in C++ */
#ifndef XIW_FUZZ_STREAM_KERNEL_H
#define XIW_FUZZ_STREAM_KERNEL_H

#include <linux/types.h>

/* Sending: carrier/fpdu.c */

struct kernel_segment {
	bool		tagged;
	__u8		opcode;
	bool		last;
	__u32		stag;		/* of a tagged one; else to be invalidated */
	__u64		to;
	__u32		msn;
	__u32		mo;
	const void	*payload;
	__u32		len;
};

/*
 * Writes an FPDU to @room, which has no octet more than the kernel asks for. Returns its length.
 * @sent counts the octets of the stream.
 */
__u32 kernel_send(void *room, const struct kernel_segment *segment, bool crc, bool markers,
		  __u32 *sent);
__u32 kernel_room(const struct kernel_segment *segment, bool markers);

/* Receiving: stream/rx.c, stream/keep.c and carrier/cursor.c */

struct kernel_receiver;

/* Octets that TCP's receive buffer holds. */
#define KERNEL_BUFFER	(1 << 20)

/* Octets by which TCP opens its window at least. */
#define KERNEL_WINDOW_STEP	128

/* What the receiver finds when it looks. If all is 0: a process, room and memory. */
struct kernel_look {
	int	used;		/* octets of the receive buffer */
	bool	refused;	/* TCP notes that it had no memory */
	bool	fails;		/* allocations do */
	bool	softirq;
	bool	worker;		/* it is a worker */
	bool	owes;		/* the process is far over its control group's limit */
	bool	tcp_is_out;	/* all TCP together uses the memory that it may */
	bool	payer;		/* there is a group that pays for the socket */
};

struct kernel_receiver *kernel_receiver_new(bool crc, __u32 seq);
void kernel_receiver_free(struct kernel_receiver *rx);
/* TCP has got @len more octets. The segment also repeats @again octets before them. */
void kernel_arrive(struct kernel_receiver *rx, const __u8 *octets, __u32 len, __u32 again);
/* Changes an octet in TCP's queue, as a peer on this host can. @offset is that in the stream. */
void kernel_change(struct kernel_receiver *rx, __u32 offset, __u8 octet);
void kernel_receive(struct kernel_receiver *rx, const struct kernel_look *look);

/* Workers of other CPUs may receive for it; at first they may not. */
void kernel_allow_worker(struct kernel_receiver *rx);
bool kernel_worker_asked(const struct kernel_receiver *rx);
/* A worker comes, and may find the socket locked. Returns whether it is done. */
bool kernel_work(struct kernel_receiver *rx, bool locked);

/* Octets that were read from TCP. Of these the last ones are of an FPDU that is kept. */
__u32 kernel_consumed(const struct kernel_receiver *rx);
__u32 kernel_kept(const struct kernel_receiver *rx);
__u32 kernel_kept_room(const struct kernel_receiver *rx);
__u32 kernel_last_asked(void);		/* octets of the last allocation */
unsigned int kernel_skbs(void);		/* that were allocated and not freed */
/* Whether the endpoint was asked to look again, in the last look. */
bool kernel_looks_again(const struct kernel_receiver *rx);
/* Whether TCP notes that it had no memory. */
bool kernel_refuses(const struct kernel_receiver *rx);
/* How often all was read while TCP told the peer to stop. Nothing would tell it to go on. */
__u32 kernel_left_closed(const struct kernel_receiver *rx);
bool kernel_open(const struct kernel_receiver *rx);
bool kernel_holds(const struct kernel_receiver *rx);
int kernel_cause(const struct kernel_receiver *rx);

/* Defined by the caller: takes a good segment. Returns XIW_OK, XIW_NO_RECEIVE or XIW_NOT_YET. */
int fuzz_place(const void *headers, __u32 ulpdu_len, const void *payload, __u32 len);

#endif /* XIW_FUZZ_STREAM_KERNEL_H */

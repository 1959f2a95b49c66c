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

/* Receiving: stream/rx.c and carrier/cursor.c */

struct kernel_receiver;

struct kernel_receiver *kernel_receiver_new(bool crc, __u32 seq);
void kernel_receiver_free(struct kernel_receiver *rx);
/* TCP has got @len more octets. The segment also repeats @again octets before them. */
void kernel_arrive(struct kernel_receiver *rx, const __u8 *octets, __u32 len, __u32 again);
void kernel_receive(struct kernel_receiver *rx);
__u32 kernel_consumed(const struct kernel_receiver *rx);
bool kernel_open(const struct kernel_receiver *rx);
bool kernel_holds(const struct kernel_receiver *rx);
int kernel_cause(const struct kernel_receiver *rx);

/* Defined by the caller: takes a good segment. Returns XIW_OK, XIW_NO_RECEIVE or XIW_NOT_YET. */
int fuzz_place(const void *headers, __u32 ulpdu_len, const void *payload, __u32 len);

#endif /* XIW_FUZZ_STREAM_KERNEL_H */

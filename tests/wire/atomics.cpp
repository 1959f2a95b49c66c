/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Atomics that the device executes: RFC 7306 section 5. */
#include "atomics.hpp"

#include <format>

using namespace rdma;
using namespace raw;
using namespace wire;

namespace
{

/* The request is answered with a Terminate that repeats its DDP header. Memory is not changed. */
void expect_request_refused(const std::string &address, Role role, Terminate expected, auto change,
			    int rights = atomic_rights, Where where = Where::current())
{
	Target target(address, role, { .memory = 4100 }, rights);
	AtomicRequest request = target.request();

	change(request);

	Octets said = request.ulpdu();

	Fpdu answer = target.expect_refusal(fpdu(said), expected, where);

	require(answer.field(20, 2) == 0xc000 && answer.field(22, 2) == said.size() &&
			after(answer.ulpdu, 24) == first(said, 18),
		"M, D, no R, the length and the DDP header of the request", where);
}

void both_operations(const std::string &address, Role role)
{
	Target target(address, role);
	AtomicRequest add = target.request(8), swap = target.request(8);

	add.data = 5;
	swap.operation = compare_swap;
	swap.mask = ones;
	swap.compare = 5;
	swap.data = 7;
	require(target.execute(add) == 0 && word(target, 1) == 5, "FetchAdd");
	require(target.execute(swap) == 5 && word(target, 1) == 7, "CmpSwap");
	add.mask = 1;
	require(target.execute(add) == 7 && word(target, 1) == 10, "FetchAdd with a mask");
	swap.compare = 0;
	swap.compare_mask = 1;
	swap.mask = 0xf0;
	swap.data = 0x35;
	require(target.execute(swap) == 10 && word(target, 1) == 0x3a, "CmpSwap with masks");
	require(word(target, 0) == 0 && word(target, 2) == 0, "the words beside it are untouched");
}

/* Atomic Responses have MSNs of their own. All Responses come in the order of the requests. */
void one_row_with_reads(const std::string &address, Role role)
{
	Target target(address, role);
	ReadRequest read = target.application().read_from(64, 4);
	AtomicRequest atomic = target.request();

	target.peer().say(fpdu(read.ulpdu(1)) + fpdu(atomic.ulpdu(2)) + fpdu(read.ulpdu(3)) +
			  fpdu(atomic.ulpdu(4)));
	for (std::uint32_t i = 0; i < 2; i++) {
		require(target.hear().opcode() == 2, "a Read Response comes");
		require(target.hear_response(1 + i, 0) == i, "then the Atomic Response");
	}
}

void identifiers(const std::string &address, Role role)
{
	Target target(address, role);
	AtomicRequest request = target.request();

	for (std::uint32_t id : { 0u, ~0u, 0x01020304u, 7u, 7u, 0x80000000u }) {
		request.id = id;
		target.execute(request);
	}
}

void byte_order(const std::string &address, Role role)
{
	Target target(address, role);

	word(target) = 0x0102030405060708;
	require(target.execute(target.request()) == 0x0102030405060708,
		"on the wire the most significant octet comes first");
	require(word(target) == 0x0102030405060709, "in memory it has the host's byte order");
}

/* Adds bit by bit. The carry out of the highest bit of a field is dropped. */
std::uint64_t sum_of_fields(std::uint64_t a, std::uint64_t b, std::uint64_t highest)
{
	std::uint64_t sum = 0, carry = 0;

	for (int bit = 0; bit < 64; bit++) {
		std::uint64_t digit = (a >> bit & 1) + (b >> bit & 1) + carry;

		sum |= (digit & 1) << bit;
		carry = highest >> bit & 1 ? 0 : digit >> 1;
	}
	return sum;
}

void fields_of_an_addition(const std::string &address, Role role)
{
	Target target(address, role);
	AtomicRequest request = target.request();

	word(target) = ones;
	request.data = 0x0000000100000001;
	request.mask = 0x8000000080000000;
	require(target.execute(request) == ones && word(target) == 0, "two fields wrap around");
	word(target) = ones;
	request.mask = 0;
	require(target.execute(request) == ones && word(target) == 0x0000000100000000,
		"without a mask it is one field");

	std::uint64_t old = 0xfedcba9876543210;

	word(target) = old;
	request.data = 0x8f1e2d3c4b5a6978;
	for (std::uint64_t mask : { ones, 0x8080808080808080ul, 0x8000800080008000ul, 1ul,
				    0x8000000000000000ul, 0x0000100000000003ul }) {
		std::uint64_t sum = sum_of_fields(old, request.data, mask);

		request.mask = mask;
		require(target.execute(request) == old, "the old value is returned");
		require(word(target) == sum, std::format("fields of mask {:#x}", mask));
		old = sum;
	}
}

void masks_of_a_swap(const std::string &address, Role role)
{
	constexpr std::uint64_t old = 0x1122334455667788, swap = 0xa5a5a5a5a5a5a5a5;
	constexpr std::uint64_t masks[] = { 0, ones, 0xff00, 0x8000000000000001 };
	Target target(address, role);
	AtomicRequest request = target.request();

	request.operation = compare_swap;
	request.data = swap;
	for (std::uint64_t compare : { old, old ^ 0x0100 })
		for (std::uint64_t compare_mask : masks)
			for (std::uint64_t mask : masks) {
				bool equal = (compare & compare_mask) == (old & compare_mask);
				std::uint64_t changed = equal ? (old ^ swap) & mask : 0;

				word(target) = old;
				request.compare = compare;
				request.compare_mask = compare_mask;
				request.mask = mask;
				require(target.execute(request) == old,
					"the old value is returned");
				require(word(target) == (old ^ changed),
					std::format("compare {:#x} in {:#x}, swap in {:#x}",
						    compare, compare_mask, mask));
			}
}

void alignment(const std::string &address, Role role)
{
	for (std::uint64_t octet = 1; octet < 8; octet++)
		expect_request_refused(address, role, { 0, 2, 7 }, [octet](AtomicRequest &request) {
			request.offset += octet;
		});

	Target target(address, role);

	target.execute(target.request(4096 - 8));
	require(word(target, 511) == 1, "the last word of a region can be used");
}

/* The request must add to the second word if its address is aligned, and end the stream if not. */
void expect_aligned(Target &target, const AtomicRequest &request, bool aligned)
{
	if (aligned) {
		require(target.execute(request) == 0 && word(target, 1) == 1,
			"the request adds to the aligned word");
		return;
	}
	target.expect_refusal(fpdu(request.ulpdu()), { 0, 2, 7 });
}

/* The start of the region does not count. This one starts 4 bytes before an aligned word. */
void alignment_in_a_region(const std::string &address, Role role)
{
	for (std::size_t octet : { 0, 4 }) {
		Target target(address, role);
		Mr part(ibv_reg_mr(target.end().pd(), target.memory().bytes().data() + 4, 100,
				   atomic_rights));
		AtomicRequest request = target.request(4 + octet);

		require(part != nullptr, "a part of the memory is registered");
		request.stag = part->rkey;
		expect_aligned(target, request, octet != 0);
	}
}

/* Nor does the TO. In a zero-based window an aligned TO may belong to an unaligned address. */
void alignment_in_a_window(const std::string &address, Role role)
{
	for (std::size_t octet : { 0, 4 }) {
		Target target(address, role, {}, atomic_rights | IBV_ACCESS_MW_BIND);
		Mw window(ibv_alloc_mw(target.end().pd(), IBV_MW_TYPE_2));
		AtomicRequest request = target.request();

		require(window != nullptr, "there is a window");
		target.end().bind(window.get(),
				  { target.memory().mr(), target.memory().address() + 4, 100,
				    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED });
		expect_completion(target.end().send_cq(), IBV_WC_SUCCESS, 0);
		request.stag = window->rkey;
		request.offset = octet;
		expect_aligned(target, request, octet != 0);
	}
}

void target_is_judged(const std::string &address, Role role)
{
	auto refused = [&](Terminate expected, auto change, Where where = Where::current()) {
		expect_request_refused(address, role, expected, change, atomic_rights, where);
	};

	refused({ 0, 1, 0 }, [](AtomicRequest &request) { request.stag ^= 0x100; });
	refused({ 0, 1, 0 }, [](AtomicRequest &request) { request.stag ^= 1; });
	refused({ 0, 1, 1 }, [](AtomicRequest &request) { request.offset -= 8; });
	refused({ 0, 1, 1 }, [](AtomicRequest &request) { request.offset += 4096; });
	refused({ 0, 1, 1 }, [](AtomicRequest &request) { request.offset += 4104; });
	refused({ 0, 1, 4 }, [](AtomicRequest &request) { request.offset = ones - 3; });

	Target other(address, role);

	refused({ 0, 1, 3 }, [&other](AtomicRequest &request) {
		request.stag = other.request().stag;
		request.offset = other.request().offset;
	});
	require(other.memory().is_zero(), "the other memory has not changed");

	expect_request_refused(
		address, role, { 0, 1, 2 }, [](AtomicRequest &) {}, Buffer::all_rights);

	Target target(address, role, {}, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

	target.execute(target.request());
}

void unknown_operations(const std::string &address, Role role)
{
	for (std::uint32_t operation = 0; operation < 16; operation++)
		if (operation != fetch_add && operation != compare_swap)
			expect_request_refused(address, role, { 0, 2, 6 },
					       [operation](AtomicRequest &request) {
						       request.operation = operation;
					       });
}

/* Sends a hundred requests, ten at a time, which the IRD allows. */
void executed_once_in_order(const std::string &address, Role role)
{
	constexpr std::uint32_t at_a_time = 10;
	Target target(address, role);
	AtomicRequest request = target.request();

	for (std::uint32_t done = 0; done < 100; done += at_a_time) {
		Octets said;

		for (request.id = done; request.id < done + at_a_time; request.id++)
			said = said + fpdu(request.ulpdu(request.id + 1));
		target.peer().say(said);
		for (std::uint32_t i = done; i < done + at_a_time; i++)
			require(target.hear_response(i + 1, i) == i,
				"each is executed in its turn");
	}
	require(word(target) == 100, "a hundred were executed");
}

void nothing_after_an_error(const std::string &address, Role role)
{
	Target target(address, role);
	AtomicRequest good = target.request(), bad = target.request(1);

	target.execute(good);
	target.peer().say(fpdu(bad.ulpdu(2)) + fpdu(good.ulpdu(3)));
	target.expect_terminate({ 0, 2, 7 });
	require(word(target) == 1, "only the first one is executed");
}

/* Reads to the last segment of a Read Response, or to another FPDU. Returns that one. */
Fpdu hear_end_of_response(Stream &stream)
{
	Fpdu heard = stream.hear();

	while (heard.opcode() == 2 && !heard.is_last())
		heard = stream.hear();
	return heard;
}

/* The peer does not take the Response to the first Read, so those to all others wait behind it. */
void room_for_reads_and_atomics(const std::string &address, Role role)
{
	constexpr std::uint32_t size = 1 << 20; /* more than TCP buffers for a peer that is idle */
	constexpr std::uint32_t ird = 4;

	for (std::uint32_t more : { 0, 1 }) {
		Target target(address, role, with_depth(ird, { .memory = size }));
		AtomicRequest atomic = target.request();
		Octets said = fpdu(target.application().read_from(0, size).ulpdu(1));

		for (std::uint32_t msn = 2; msn <= ird + more; msn++)
			said = said + fpdu(atomic.ulpdu(msn));
		target.peer().say(said);

		Fpdu heard = hear_end_of_response(target);

		if (more) {
			require(heard.terminate() == Terminate{ 1, 2, 2 }, "one is too many");
			continue;
		}
		require(heard.opcode() == 2, "the Read is answered");
		for (std::uint32_t msn = 1; msn < ird; msn++)
			target.hear_response(msn, 0);
	}
}

void reserved_fields(const std::string &address, Role role)
{
	Target target(address, role);
	AtomicRequest request = target.request();

	request.operation |= 0xfffffff0;
	target.peer().say(fpdu(
		Untagged{ .ddp = 0x41 | 0x3c, .rdmap = 0x4a | 0x30, .invalidate = ~0u, .queue = 1 }
			.ulpdu(request.octets())));
	require(target.hear_response(1, 0) == 0 && word(target) == 1, "the request is executed");

	post_atomic(target, 0, 1, 1);

	Fpdu heard = hear_request(target, 1);

	require(heard.field(18, 4) == fetch_add, "the device sends zeros");
	target.peer().say(fpdu(answer(
		heard, 3,
		{ .ddp = 0x41 | 0x3c, .rdmap = 0x4b | 0x30, .invalidate = ~0u, .queue = 3 })));
	expect_completion(target.end().send_cq(), IBV_WC_SUCCESS, 1);
}

/* For errors of remote operation and of remote protection. expect_request_refused() checks the header. */
void terminated_header(const std::string &address, Role role)
{
	expect_request_refused(address, role, { 0, 2, 7 },
			       [](AtomicRequest &request) { request.offset += 4; });
	expect_request_refused(address, role, { 0, 1, 0 },
			       [](AtomicRequest &request) { request.stag ^= 0x200; });
}

/* The rdma_cm does not know of Atomics on iWARP, so it does not set that right for the QP. */
void right_of_the_region(const std::string &address, Role role)
{
	Target target(address, role);
	ibv_qp_attr attr = {};
	ibv_qp_init_attr init = {};

	require(!ibv_query_qp(target.end().qp(), &attr, IBV_QP_ACCESS_FLAGS, &init),
		"ibv_query_qp");
	require(!(attr.qp_access_flags & IBV_ACCESS_REMOTE_ATOMIC), "the QP has no such right");
	target.execute(target.request());
	require(word(target) == 1, "the right of the region is enough");
}

const cases::Case all[] = {
	{ "EXT-01 both operations are there, masked or not", in_both_roles<both_operations> },
	{ "EXT-02 Atomics and Reads are answered in one sequence",
	  in_both_roles<one_row_with_reads> },
	{ "EXT-03 a Response has the identifier of its request", in_both_roles<identifiers> },
	{ "EXT-04 numbers are big-endian on the wire only", in_both_roles<byte_order> },
	{ "EXT-05 no carry passes between the fields of an addition",
	  in_both_roles<fields_of_an_addition> },
	{ "EXT-06 masks say what is compared and what is swapped", in_both_roles<masks_of_a_swap> },
	{ "EXT-07 a target that is not aligned is answered with 0/2/7", in_both_roles<alignment> },
	{ "EXT-07 the address must be aligned, wherever the region begins",
	  in_both_roles<alignment_in_a_region> },
	{ "EXT-07 the address must be aligned, whatever the TO",
	  in_both_roles<alignment_in_a_window> },
	{ "EXT-08 the target of an Atomic is checked", in_both_roles<target_is_judged> },
	{ "EXT-09 unknown operations are answered with 0/2/6", in_both_roles<unknown_operations> },
	{ "EXT-10 Atomics are executed once, in order", in_both_roles<executed_once_in_order> },
	{ "EXT-10 nothing is executed after an error", in_both_roles<nothing_after_an_error> },
	{ "EXT-12 Reads and Atomics share the IRD", in_both_roles<room_for_reads_and_atomics> },
	{ "EXT-15 reserved fields are ignored, and sent as zero", in_both_roles<reserved_fields> },
	{ "EXT-16 a Terminate has the DDP header of an Atomic Request",
	  in_both_roles<terminated_header> },
	{ "EXT-22 the right of the region is enough", in_both_roles<right_of_the_region> },
};

} /* namespace */

int main(int argc, char **argv)
{
	return cases::run(all, argc, argv);
}

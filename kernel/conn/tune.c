// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* tune.c - applies the settings of a device to TCP sockets */

#include <linux/cred.h>
#include <linux/sched/task.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "carrier/sock_lock.h"
#include "conn/tune.h"
#include "device.h"
#include "setting.h"

/*
 * Only an administrator may choose a congestion control that is not open to everybody. It is the
 * one who wrote the setting, not the process that connects, so TCP is asked with these credentials.
 */
static struct cred *tune_cred;

/* The kernel-doc of public functions is in tune.h. */
void xiw_tune_tos(struct sock *sk, u8 tos)
{
	/* An IPv6 socket has two: one for mapped IPv4 addresses, and the traffic class. */
	ip_sock_set_tos(sk, tos);
	if (sk->sk_family != AF_INET6)
		return;
	lock_sock(sk);
	WRITE_ONCE(inet6_sk(sk)->tclass, (tos & ~INET_ECN_MASK) |
					 (inet6_sk(sk)->tclass & INET_ECN_MASK));
	sk_dst_reset(sk);
	xiw_sock_unlock(sk);
}

/*
 * Congestion control
 */

static int tune_congestion(struct socket *sock, const char *name)
{
	const struct cred *before = override_creds(tune_cred);
	int ret;

	ret = sock->ops->setsockopt(sock, SOL_TCP, TCP_CONGESTION, KERNEL_SOCKPTR((char *)name),
				    strlen(name));
	revert_creds(before);
	return ret;
}

/*
 * Return: a socket that has this congestion control, or ERR_PTR(). While it exists, the module of
 * the congestion control stays loaded. All network namespaces have the same ones.
 */
static struct socket *tune_user_of(const char *name)
{
	struct socket *sock;
	int ret;

	ret = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (ret)
		return ERR_PTR(ret);
	ret = tune_congestion(sock, name);
	if (!ret)
		return sock;
	sock_release(sock);
	return ERR_PTR(ret);
}

struct xiw_tune_name xiw_tune_congestion(struct xiw_settings *settings)
{
	struct xiw_tune_name result;

	spin_lock(&settings->lock);
	result = settings->congestion;
	spin_unlock(&settings->lock);
	return result;
}

int xiw_tune_set_congestion(struct xiw_settings *settings, const char *text)
{
	size_t len = strcspn(text, "\n");
	struct xiw_tune_name name = {};
	struct socket *user = NULL;

	if (len >= sizeof(name.text))
		return -EINVAL;
	memcpy(name.text, text, len);
	if (len) {
		user = tune_user_of(name.text);
		if (IS_ERR(user))
			return PTR_ERR(user);
	}
	spin_lock(&settings->lock);
	settings->congestion = name;
	swap(settings->congestion_user, user);
	spin_unlock(&settings->lock);
	if (user)
		sock_release(user);
	return 0;
}

/*
 * Applying
 */

/*
 * TCP is asked even if the route of the connection insists on another congestion control. It
 * refuses then, and that is right. It still finds the one of the setting, so it loads no module.
 */
static void tune_apply_congestion(struct socket *sock, struct xiw_device *dev)
{
	struct xiw_tune_name name = xiw_tune_congestion(&dev->settings);

	if (*name.text)
		tune_congestion(sock, name.text);
}

void xiw_tune(struct socket *sock, struct xiw_device *dev, bool may_mark)
{
	const struct xiw_settings *settings = &dev->settings;
	int rcvbuf = xiw_setting(settings, XIW_SET_RCVBUF);
	u32 user_timeout = xiw_setting(settings, XIW_SET_USER_TIMEOUT_MS);
	u32 keepalive = xiw_setting(settings, XIW_SET_KEEPALIVE_S);
	u32 dscp = xiw_setting(settings, XIW_SET_DSCP);
	struct sock *sk = sock->sk;
	unsigned int before = xiw_nowait_begin(sk);

	lock_sock(sk);
	WRITE_ONCE(sk->sk_rcvbuf, max(sk->sk_rcvbuf, rcvbuf));
	xiw_sock_unlock(sk);
	if (user_timeout)
		tcp_sock_set_user_timeout(sk, user_timeout);
	if (keepalive)
		tcp_sock_set_keepidle(sk, keepalive);
	if (dscp && may_mark)
		xiw_tune_tos(sk, dscp << 2);
	tune_apply_congestion(sock, dev);
	xiw_nowait_end(before);
}

int xiw_tune_init(void)
{
	tune_cred = prepare_kernel_cred(&init_task);
	return tune_cred ? 0 : -ENOMEM;
}

void xiw_tune_exit(void)
{
	put_cred(tune_cred);
}

/**
 * Messages that prove who wrote them and hide what they carry: keys, signatures over exact bytes, payloads encrypted for
 * their readers. {@link speed.message.MessageKey} is one key,
 * {@link speed.message.Protection} what is done to a message that is sent, {@link speed.message.MessageSecurity} what a
 * node does to all and believes of those it receives.
 */
package speed.message;

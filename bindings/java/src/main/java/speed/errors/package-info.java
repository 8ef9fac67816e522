/**
 * Every exception SPEED throws, as one tree; all are unchecked, codes are those of
 * {@code registry_spec/codes.json}. One that ends a call says whether the call has run ({@link Execution}).
 *
 * <pre>
 * SpeedException
 * ├── ConfigurationException   the program asked for something impossible
 * │   ├── KeyFileException  RootException  InvalidNameException  DurabilityException
 * │   └── ServiceExistsException
 * ├── RegistrationException    this node has no (longer a) right to its name
 * │   └── NameTakenException  LeaseLostException
 * ├── NodeStateException       the node object cannot be used
 * │   └── NodeClosedException
 * ├── DeliveryException        the envelope was not handed over; nothing was accepted
 * │   ├── UnknownNodeException  NodeLeftException  InboxFullException  StorageException
 * │   ├── PayloadTooLargeException  UnserialisableException  NotAcknowledgedException
 * │   └── SegmentStoreException
 * ├── CallException            the other side answered, and the answer is an error (SPC codes)
 * │   ├── ServiceNotFoundException  AccessDeniedException  InvalidArgumentsException
 * │   ├── ExecutionFailedException  CallTimeoutException  InternalException
 * │   └── SegmentsLostException  CallWithdrawnException
 * ├── MessageException         a message is not protected, or refused for what it proves or hides
 * │   ├── BadSignatureException  UnsignedException  UntrustedException
 * │   ├── EncryptionException  NoRecipientKeyException  CompressionException
 * │   ├── NotEncryptedException  NotClearedException
 * │   ├── AlgorithmException
 * │   │   └── WeakAlgorithmException  UnknownAlgorithmException  NotAvailableException
 * │   └── MessageKeyException
 * │       └── KeyUnavailableException  KeyRefusedException  KeyExhaustedException
 * └── WireException            bytes of a peer that break a rule of registry_spec/
 * </pre>
 */
package speed.errors;

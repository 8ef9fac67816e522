/**
 * Every exception SPEED throws, as one tree; all are unchecked, codes are those of
 * {@code registry_spec/codes.json}. One that ends a call says whether the call has run ({@link Execution}).
 *
 * <pre>
 * SpeedException
 * ├── ConfigurationException
 * │       KeyFileException RootException InvalidNameException DurabilityException ServiceExistsException
 * ├── RegistrationException
 * │       NameTakenException LeaseLostException
 * ├── NodeStateException
 * │       NodeClosedException
 * ├── DeliveryException
 * │       UnknownNodeException NodeStartingException NodeLeftException (NodeLeavingException NodeReplacedException
 * │       HostAwayException) IdentityException (IdentityChangedException IdentityRevokedException
 * │       IdentityExpiredException IdentityUnvouchedException IdentityMissingException IdentityCopiedException)
 * │       InboxFullException StorageException PayloadTooLargeException UnserialisableException NotAcknowledgedException
 * │       SegmentStoreException
 * ├── CallException
 * │       ServiceNotFoundException AccessDeniedException InvalidArgumentsException ExecutionFailedException
 * │       CallTimeoutException InternalException SegmentsLostException CallWithdrawnException ApplicationException
 * ├── MessageException
 * │       BadSignatureException UnsignedException UntrustedException EncryptionException NoRecipientKeyException
 * │       NotEncryptedException CompressionException AlgorithmException (WeakAlgorithmException
 * │       UnknownAlgorithmException NotAvailableException) MessageKeyException (KeyUnavailableException
 * │       KeyRefusedException KeyExhaustedException) SchemaException NotClearedException NamespaceException
 * │       BatchException
 * └── WireException
 * </pre>
 */
package speed.errors;

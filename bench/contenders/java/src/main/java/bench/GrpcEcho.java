package bench;

import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollServerDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;

/**
 * grpc-java over a Unix socket (netty, epoll). Bytes go through unchanged: protobuf's own cost is left out, and there is
 * no TLS either; both favour gRPC.
 */
final class GrpcEcho implements Contender.Library {
    private static final MethodDescriptor<byte[], byte[]> ECHO = method("Echo", MethodType.UNARY);
    private static final MethodDescriptor<byte[], byte[]> DRAIN = method("Drain", MethodType.CLIENT_STREAMING);

    @Override
    public AutoCloseable serve(Path work, String kind) throws IOException {
        Server server = NettyServerBuilder.forAddress(address(work))
                .channelType(EpollServerDomainSocketChannel.class)
                .bossEventLoopGroup(new EpollEventLoopGroup(1))
                .workerEventLoopGroup(new EpollEventLoopGroup())
                .maxInboundMessageSize(Integer.MAX_VALUE)
                .addService(ServerServiceDefinition.builder("bench.Echo")
                        .addMethod(ECHO, ServerCalls.asyncUnaryCall(GrpcEcho::answer))
                        .addMethod(DRAIN, ServerCalls.asyncClientStreamingCall(GrpcEcho::drain))
                        .build())
                .build()
                .start();
        return server::shutdownNow;
    }

    private static void answer(byte[] data, StreamObserver<byte[]> caller) {
        caller.onNext(data);
        caller.onCompleted();
    }

    private static StreamObserver<byte[]> drain(StreamObserver<byte[]> sender) {
        return new StreamObserver<>() {
            @Override
            public void onNext(byte[] data) {
                // taken
            }

            @Override
            public void onError(Throwable error) {
                // the client went
            }

            @Override
            public void onCompleted() {
                answer(new byte[0], sender);
            }
        };
    }

    @Override
    public Client connect(Path work, String kind) {
        return new Calls(NettyChannelBuilder.forAddress(address(work))
                .channelType(EpollDomainSocketChannel.class)
                .eventLoopGroup(new EpollEventLoopGroup(1))
                .maxInboundMessageSize(Integer.MAX_VALUE)
                .usePlaintext()
                .build());
    }

    private static DomainSocketAddress address(Path work) {
        return new DomainSocketAddress(work.resolve("grpc").toFile());
    }

    private record Calls(ManagedChannel channel) implements Client {
        @Override
        public byte[] echo(byte[] data) {
            return ClientCalls.blockingUnaryCall(channel, ECHO, CallOptions.DEFAULT, data);
        }

        @Override
        public void pipeline(byte[] data, int count) {
            List<Future<byte[]>> underWay = new ArrayList<>(count);
            for (int n = 0; n < count; n++) {
                underWay.add(ClientCalls.futureUnaryCall(channel.newCall(ECHO, CallOptions.DEFAULT), data));
            }
            underWay.forEach(GrpcEcho::join);
        }

        /** Without waiting for the transport to take them: what is sent waits in memory, as netty means it. */
        @Override
        public void send(byte[] data, int count) {
            CompletableFuture<byte[]> done = new CompletableFuture<>();
            StreamObserver<byte[]> messages =
                    ClientCalls.asyncClientStreamingCall(channel.newCall(DRAIN, CallOptions.DEFAULT), new Last(done));
            for (int n = 0; n < count; n++) {
                messages.onNext(data);
            }
            messages.onCompleted();
            done.join();
        }

        @Override
        public void close() {
            channel.shutdownNow();
        }
    }

    /** Completes with the one answer of a stream. */
    private record Last(CompletableFuture<byte[]> done) implements StreamObserver<byte[]> {
        @Override
        public void onNext(byte[] answer) {
            done.complete(answer);
        }

        @Override
        public void onError(Throwable error) {
            done.completeExceptionally(error);
        }

        @Override
        public void onCompleted() {
            // it was told with the answer
        }
    }

    private static byte[] join(Future<byte[]> future) {
        try {
            return future.get();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static MethodDescriptor<byte[], byte[]> method(String name, MethodType type) {
        return MethodDescriptor.<byte[], byte[]>newBuilder(new Plain(), new Plain())
                .setFullMethodName(MethodDescriptor.generateFullMethodName("bench.Echo", name))
                .setType(type)
                .build();
    }

    /** Bytes as they are. */
    private static final class Plain implements MethodDescriptor.Marshaller<byte[]> {
        @Override
        public InputStream stream(byte[] data) {
            return new ByteArrayInputStream(data);
        }

        @Override
        public byte[] parse(InputStream stream) {
            try {
                return stream.readAllBytes();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }
}

import * as $protobuf from "protobufjs";
import Long = require("long");

/** Namespace takeover. */
export namespace takeover {

    /**
     * Properties of a TakeoverInit.
     * @deprecated Use takeover.TakeoverInit.$Properties instead.
     */
    interface ITakeoverInit extends takeover.TakeoverInit.$Properties {
    }

    /** Represents a TakeoverInit. */
    class TakeoverInit {

        /**
         * Constructs a new TakeoverInit.
         * @param [properties] Properties to set
         */
        constructor(properties?: takeover.TakeoverInit.$Properties);

        /** Unknown fields preserved while decoding when enabled */
        $unknowns?: Uint8Array[];

        /** TakeoverInit provider. */
        provider: string;

        /** TakeoverInit providerId. */
        providerId: string;

        /** TakeoverInit bmaasEndpoint. */
        bmaasEndpoint: string;

        /** TakeoverInit machineId. */
        machineId: string;

        /** TakeoverInit caCertificate. */
        caCertificate: Uint8Array;

        /** TakeoverInit nonce. */
        nonce: Uint8Array;

        /**
         * Encodes the specified TakeoverInit message. Does not implicitly {@link takeover.TakeoverInit.verify|verify} messages.
         * @param message TakeoverInit message or plain object to encode
         * @param [writer] Writer to encode to
         * @returns Writer
         */
        static encode(message: takeover.TakeoverInit.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

        /**
         * Decodes a TakeoverInit message from the specified reader or buffer.
         * @param reader Reader or buffer to decode from
         * @param [length] Message length if known beforehand
         * @returns {takeover.TakeoverInit & takeover.TakeoverInit.$Shape} TakeoverInit
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): takeover.TakeoverInit & takeover.TakeoverInit.$Shape;

        /**
         * Gets the type url for TakeoverInit
         * @param [prefix] Custom type url prefix, defaults to `"type.googleapis.com"`
         * @returns The type url
         */
        static getTypeUrl(prefix?: string): string;
    }

    namespace TakeoverInit {

        /** Properties of a TakeoverInit. */
        interface $Properties {

            /** TakeoverInit provider */
            provider?: (string|null);

            /** TakeoverInit providerId */
            providerId?: (string|null);

            /** TakeoverInit bmaasEndpoint */
            bmaasEndpoint?: (string|null);

            /** TakeoverInit machineId */
            machineId?: (string|null);

            /** TakeoverInit caCertificate */
            caCertificate?: (Uint8Array|null);

            /** TakeoverInit nonce */
            nonce?: (Uint8Array|null);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];
        }

        /** Shape of a TakeoverInit. */
        type $Shape = takeover.TakeoverInit.$Properties;
    }

    /**
     * Properties of a TakeoverResponse.
     * @deprecated Use takeover.TakeoverResponse.$Properties instead.
     */
    interface ITakeoverResponse extends takeover.TakeoverResponse.$Properties {
    }

    /** Represents a TakeoverResponse. */
    class TakeoverResponse {

        /**
         * Constructs a new TakeoverResponse.
         * @param [properties] Properties to set
         */
        constructor(properties?: takeover.TakeoverResponse.$Properties);

        /** Unknown fields preserved while decoding when enabled */
        $unknowns?: Uint8Array[];

        /** TakeoverResponse initMessage. */
        initMessage?: (takeover.TakeoverInit.$Properties|null);

        /** TakeoverResponse key. */
        key: Uint8Array;

        /** TakeoverResponse warning. */
        warning: string[];

        /** TakeoverResponse error. */
        error: string;

        /**
         * Encodes the specified TakeoverResponse message. Does not implicitly {@link takeover.TakeoverResponse.verify|verify} messages.
         * @param message TakeoverResponse message or plain object to encode
         * @param [writer] Writer to encode to
         * @returns Writer
         */
        static encode(message: takeover.TakeoverResponse.$Properties, writer?: $protobuf.Writer): $protobuf.Writer;

        /**
         * Decodes a TakeoverResponse message from the specified reader or buffer.
         * @param reader Reader or buffer to decode from
         * @param [length] Message length if known beforehand
         * @returns {takeover.TakeoverResponse & takeover.TakeoverResponse.$Shape} TakeoverResponse
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        static decode(reader: ($protobuf.Reader|Uint8Array), length?: number): takeover.TakeoverResponse & takeover.TakeoverResponse.$Shape;

        /**
         * Gets the type url for TakeoverResponse
         * @param [prefix] Custom type url prefix, defaults to `"type.googleapis.com"`
         * @returns The type url
         */
        static getTypeUrl(prefix?: string): string;
    }

    namespace TakeoverResponse {

        /** Properties of a TakeoverResponse. */
        interface $Properties {

            /** TakeoverResponse initMessage */
            initMessage?: (takeover.TakeoverInit.$Properties|null);

            /** TakeoverResponse key */
            key?: (Uint8Array|null);

            /** TakeoverResponse warning */
            warning?: (string[]|null);

            /** TakeoverResponse error */
            error?: (string|null);

            /** Unknown fields preserved while decoding when enabled */
            $unknowns?: Uint8Array[];
        }

        /** Shape of a TakeoverResponse. */
        type $Shape = takeover.TakeoverResponse.$Properties;
    }
}

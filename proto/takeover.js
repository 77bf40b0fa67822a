/*eslint-disable block-scoped-var, id-length, no-control-regex, no-magic-numbers, no-mixed-operators, no-prototype-builtins, no-redeclare, no-shadow, no-var, sort-vars, default-case, jsdoc/require-param*/
import $protobuf from "protobufjs/minimal.js";

// Common aliases
const $Reader = $protobuf.Reader, $Writer = $protobuf.Writer, $util = $protobuf.util;
const $Object = $util.global.Object, $undefined = $util.global.undefined, $Error = $util.global.Error, $RangeError = $util.global.RangeError;

// Exported root namespace
const $root = $protobuf.roots["default"] || ($protobuf.roots["default"] = {});

export const takeover = $root.takeover = (() => {

    /**
     * Namespace takeover.
     * @exports takeover
     * @namespace
     */
    const takeover = {};

    takeover.TakeoverInit = (function() {

        /**
         * Properties of a TakeoverInit.
         * @typedef {Object} takeover.TakeoverInit.$Properties
         * @property {string|null} [provider] TakeoverInit provider
         * @property {string|null} [providerId] TakeoverInit providerId
         * @property {string|null} [bmaasEndpoint] TakeoverInit bmaasEndpoint
         * @property {string|null} [machineId] TakeoverInit machineId
         * @property {Uint8Array|null} [caCertificate] TakeoverInit caCertificate
         * @property {Uint8Array|null} [nonce] TakeoverInit nonce
         * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
         */

        /**
         * Properties of a TakeoverInit.
         * @memberof takeover
         * @interface ITakeoverInit
         * @augments takeover.TakeoverInit.$Properties
         * @deprecated Use takeover.TakeoverInit.$Properties instead.
         */

        /**
         * Shape of a TakeoverInit.
         * @typedef {takeover.TakeoverInit.$Properties} takeover.TakeoverInit.$Shape
         */

        /**
         * Constructs a new TakeoverInit.
         * @memberof takeover
         * @classdesc Represents a TakeoverInit.
         * @constructor
         * @param {takeover.TakeoverInit.$Properties=} [properties] Properties to set
         * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
         */
        const TakeoverInit = function (properties) {
            if (properties)
                for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                    if (properties[keys[i]] != null && keys[i] !== "__proto__")
                        this[keys[i]] = properties[keys[i]];
        };

        /**
         * TakeoverInit provider.
         * @member {string} provider
         * @memberof takeover.TakeoverInit
         * @instance
         */
        TakeoverInit.prototype.provider = "";

        /**
         * TakeoverInit providerId.
         * @member {string} providerId
         * @memberof takeover.TakeoverInit
         * @instance
         */
        TakeoverInit.prototype.providerId = "";

        /**
         * TakeoverInit bmaasEndpoint.
         * @member {string} bmaasEndpoint
         * @memberof takeover.TakeoverInit
         * @instance
         */
        TakeoverInit.prototype.bmaasEndpoint = "";

        /**
         * TakeoverInit machineId.
         * @member {string} machineId
         * @memberof takeover.TakeoverInit
         * @instance
         */
        TakeoverInit.prototype.machineId = "";

        /**
         * TakeoverInit caCertificate.
         * @member {Uint8Array} caCertificate
         * @memberof takeover.TakeoverInit
         * @instance
         */
        TakeoverInit.prototype.caCertificate = $util.newBuffer([]);

        /**
         * TakeoverInit nonce.
         * @member {Uint8Array} nonce
         * @memberof takeover.TakeoverInit
         * @instance
         */
        TakeoverInit.prototype.nonce = $util.newBuffer([]);

        /**
         * Encodes the specified TakeoverInit message. Does not implicitly {@link takeover.TakeoverInit.verify|verify} messages.
         * @function encode
         * @memberof takeover.TakeoverInit
         * @static
         * @param {takeover.TakeoverInit.$Properties} message TakeoverInit message or plain object to encode
         * @param {$protobuf.Writer} [writer] Writer to encode to
         * @returns {$protobuf.Writer} Writer
         */
        TakeoverInit.encode = function (message, writer, _depth) {
            if (!writer)
                writer = $Writer.create();
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                throw $Error("max depth exceeded");
            if (message.provider != null && $Object.hasOwnProperty.call(message, "provider") && message.provider !== "")
                writer.uint32(/* id 1, wireType 2 =*/10).string(message.provider);
            if (message.providerId != null && $Object.hasOwnProperty.call(message, "providerId") && message.providerId !== "")
                writer.uint32(/* id 2, wireType 2 =*/18).string(message.providerId);
            if (message.bmaasEndpoint != null && $Object.hasOwnProperty.call(message, "bmaasEndpoint") && message.bmaasEndpoint !== "")
                writer.uint32(/* id 3, wireType 2 =*/26).string(message.bmaasEndpoint);
            if (message.machineId != null && $Object.hasOwnProperty.call(message, "machineId") && message.machineId !== "")
                writer.uint32(/* id 4, wireType 2 =*/34).string(message.machineId);
            if (message.caCertificate != null && $Object.hasOwnProperty.call(message, "caCertificate") && message.caCertificate.length)
                writer.uint32(/* id 5, wireType 2 =*/42).bytes(message.caCertificate);
            if (message.nonce != null && $Object.hasOwnProperty.call(message, "nonce") && message.nonce.length)
                writer.uint32(/* id 6, wireType 2 =*/50).bytes(message.nonce);
            if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                for (let i = 0; i < message.$unknowns.length; ++i)
                    writer.raw(message.$unknowns[i]);
            return writer;
        };

        /**
         * Decodes a TakeoverInit message from the specified reader or buffer.
         * @function decode
         * @memberof takeover.TakeoverInit
         * @static
         * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
         * @param {number} [length] Message length if known beforehand
         * @returns {takeover.TakeoverInit & takeover.TakeoverInit.$Shape} TakeoverInit
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        TakeoverInit.decode = function (reader, length, _end, _depth, _target) {
            if (!(reader instanceof $Reader))
                reader = $Reader.create(reader);
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $Reader.recursionLimit)
                throw $Error("max depth exceeded");
            let end, message, value;
            if (length === $undefined)
                end = reader.len;
            else {
                end = reader.pos + length;
                if (end > reader.len)
                    throw $RangeError("index out of range");
                length = reader.len;
                reader.len = end;
            }
            message = _target || new $root.takeover.TakeoverInit();
            while (reader.pos < end) {
                let start = reader.pos;
                let tag = reader.tag();
                if (tag === _end) {
                    _end = $undefined;
                    break;
                }
                let wireType = tag & 7;
                switch (tag >>>= 3) {
                case 1: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.stringVerify()).length)
                            message.provider = value;
                        else
                            delete message.provider;
                        continue;
                    }
                case 2: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.stringVerify()).length)
                            message.providerId = value;
                        else
                            delete message.providerId;
                        continue;
                    }
                case 3: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.stringVerify()).length)
                            message.bmaasEndpoint = value;
                        else
                            delete message.bmaasEndpoint;
                        continue;
                    }
                case 4: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.stringVerify()).length)
                            message.machineId = value;
                        else
                            delete message.machineId;
                        continue;
                    }
                case 5: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.bytes()).length)
                            message.caCertificate = value;
                        else
                            delete message.caCertificate;
                        continue;
                    }
                case 6: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.bytes()).length)
                            message.nonce = value;
                        else
                            delete message.nonce;
                        continue;
                    }
                }
                reader.skipType(wireType, _depth, tag);
                if (!reader.discardUnknown) {
                    $util.makeProp(message, "$unknowns", false);
                    (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                }
            }
            if (length !== $undefined) {
                if (reader.pos !== end)
                    throw $RangeError("index out of range");
                reader.len = length;
            }
            if (_end !== $undefined)
                throw $Error("missing end group");
            return message;
        };

        /**
         * Gets the type url for TakeoverInit
         * @function getTypeUrl
         * @memberof takeover.TakeoverInit
         * @static
         * @param {string} [prefix] Custom type url prefix, defaults to `"type.googleapis.com"`
         * @returns {string} The type url
         */
        TakeoverInit.getTypeUrl = function(prefix) {
            if (prefix === $undefined)
                prefix = "type.googleapis.com";
            return prefix + "/takeover.TakeoverInit";
        };

        return TakeoverInit;
    })();

    takeover.TakeoverResponse = (function() {

        /**
         * Properties of a TakeoverResponse.
         * @typedef {Object} takeover.TakeoverResponse.$Properties
         * @property {takeover.TakeoverInit.$Properties|null} [initMessage] TakeoverResponse initMessage
         * @property {Uint8Array|null} [key] TakeoverResponse key
         * @property {Array.<string>|null} [warning] TakeoverResponse warning
         * @property {string|null} [error] TakeoverResponse error
         * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
         */

        /**
         * Properties of a TakeoverResponse.
         * @memberof takeover
         * @interface ITakeoverResponse
         * @augments takeover.TakeoverResponse.$Properties
         * @deprecated Use takeover.TakeoverResponse.$Properties instead.
         */

        /**
         * Shape of a TakeoverResponse.
         * @typedef {takeover.TakeoverResponse.$Properties} takeover.TakeoverResponse.$Shape
         */

        /**
         * Constructs a new TakeoverResponse.
         * @memberof takeover
         * @classdesc Represents a TakeoverResponse.
         * @constructor
         * @param {takeover.TakeoverResponse.$Properties=} [properties] Properties to set
         * @property {Array.<Uint8Array>} [$unknowns] Unknown fields preserved while decoding when enabled
         */
        const TakeoverResponse = function (properties) {
            this.warning = [];
            if (properties)
                for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                    if (properties[keys[i]] != null && keys[i] !== "__proto__")
                        this[keys[i]] = properties[keys[i]];
        };

        /**
         * TakeoverResponse initMessage.
         * @member {takeover.TakeoverInit.$Properties|null|undefined} initMessage
         * @memberof takeover.TakeoverResponse
         * @instance
         */
        TakeoverResponse.prototype.initMessage = null;

        /**
         * TakeoverResponse key.
         * @member {Uint8Array} key
         * @memberof takeover.TakeoverResponse
         * @instance
         */
        TakeoverResponse.prototype.key = $util.newBuffer([]);

        /**
         * TakeoverResponse warning.
         * @member {Array.<string>} warning
         * @memberof takeover.TakeoverResponse
         * @instance
         */
        TakeoverResponse.prototype.warning = $util.emptyArray;

        /**
         * TakeoverResponse error.
         * @member {string} error
         * @memberof takeover.TakeoverResponse
         * @instance
         */
        TakeoverResponse.prototype.error = "";

        /**
         * Encodes the specified TakeoverResponse message. Does not implicitly {@link takeover.TakeoverResponse.verify|verify} messages.
         * @function encode
         * @memberof takeover.TakeoverResponse
         * @static
         * @param {takeover.TakeoverResponse.$Properties} message TakeoverResponse message or plain object to encode
         * @param {$protobuf.Writer} [writer] Writer to encode to
         * @returns {$protobuf.Writer} Writer
         */
        TakeoverResponse.encode = function (message, writer, _depth) {
            if (!writer)
                writer = $Writer.create();
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $util.recursionLimit)
                throw $Error("max depth exceeded");
            if (message.initMessage != null && $Object.hasOwnProperty.call(message, "initMessage"))
                $root.takeover.TakeoverInit.encode(message.initMessage, writer.uint32(/* id 1, wireType 2 =*/10).fork(), _depth + 1).ldelim();
            if (message.key != null && $Object.hasOwnProperty.call(message, "key") && message.key.length)
                writer.uint32(/* id 2, wireType 2 =*/18).bytes(message.key);
            if (message.warning != null && message.warning.length)
                for (let i = 0; i < message.warning.length; ++i)
                    writer.uint32(/* id 3, wireType 2 =*/26).string(message.warning[i]);
            if (message.error != null && $Object.hasOwnProperty.call(message, "error") && message.error !== "")
                writer.uint32(/* id 4, wireType 2 =*/34).string(message.error);
            if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                for (let i = 0; i < message.$unknowns.length; ++i)
                    writer.raw(message.$unknowns[i]);
            return writer;
        };

        /**
         * Decodes a TakeoverResponse message from the specified reader or buffer.
         * @function decode
         * @memberof takeover.TakeoverResponse
         * @static
         * @param {$protobuf.Reader|Uint8Array} reader Reader or buffer to decode from
         * @param {number} [length] Message length if known beforehand
         * @returns {takeover.TakeoverResponse & takeover.TakeoverResponse.$Shape} TakeoverResponse
         * @throws {Error} If the payload is not a reader or valid buffer
         * @throws {$protobuf.util.ProtocolError} If required fields are missing
         */
        TakeoverResponse.decode = function (reader, length, _end, _depth, _target) {
            if (!(reader instanceof $Reader))
                reader = $Reader.create(reader);
            if (_depth === $undefined)
                _depth = 0;
            if (_depth > $Reader.recursionLimit)
                throw $Error("max depth exceeded");
            let end, message, value;
            if (length === $undefined)
                end = reader.len;
            else {
                end = reader.pos + length;
                if (end > reader.len)
                    throw $RangeError("index out of range");
                length = reader.len;
                reader.len = end;
            }
            message = _target || new $root.takeover.TakeoverResponse();
            while (reader.pos < end) {
                let start = reader.pos;
                let tag = reader.tag();
                if (tag === _end) {
                    _end = $undefined;
                    break;
                }
                let wireType = tag & 7;
                switch (tag >>>= 3) {
                case 1: {
                        if (wireType !== 2)
                            break;
                        message.initMessage = $root.takeover.TakeoverInit.decode(reader, reader.size(), $undefined, _depth + 1, message.initMessage);
                        continue;
                    }
                case 2: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.bytes()).length)
                            message.key = value;
                        else
                            delete message.key;
                        continue;
                    }
                case 3: {
                        if (wireType !== 2)
                            break;
                        if (!(message.warning && message.warning.length))
                            message.warning = [];
                        message.warning.push(reader.stringVerify());
                        continue;
                    }
                case 4: {
                        if (wireType !== 2)
                            break;
                        if ((value = reader.stringVerify()).length)
                            message.error = value;
                        else
                            delete message.error;
                        continue;
                    }
                }
                reader.skipType(wireType, _depth, tag);
                if (!reader.discardUnknown) {
                    $util.makeProp(message, "$unknowns", false);
                    (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                }
            }
            if (length !== $undefined) {
                if (reader.pos !== end)
                    throw $RangeError("index out of range");
                reader.len = length;
            }
            if (_end !== $undefined)
                throw $Error("missing end group");
            return message;
        };

        /**
         * Gets the type url for TakeoverResponse
         * @function getTypeUrl
         * @memberof takeover.TakeoverResponse
         * @static
         * @param {string} [prefix] Custom type url prefix, defaults to `"type.googleapis.com"`
         * @returns {string} The type url
         */
        TakeoverResponse.getTypeUrl = function(prefix) {
            if (prefix === $undefined)
                prefix = "type.googleapis.com";
            return prefix + "/takeover.TakeoverResponse";
        };

        return TakeoverResponse;
    })();

    return takeover;
})();

export {
  $root as default
};
